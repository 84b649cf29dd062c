// The one unit that compiles the fmt library (Debian ships no static libfmt).
#include <fmt/format-inl.h>

// The headers declare these `extern template`; the library's own source file, which we do not have, instantiates them.
FMT_BEGIN_NAMESPACE
namespace detail {
template FMT_API thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template FMT_API char decimal_point_impl<char>(locale_ref);
}  // namespace detail
FMT_END_NAMESPACE
