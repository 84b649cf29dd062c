// The one unit that compiles the fmt library (Debian ships no static libfmt).
#include <fmt/format-inl.h>
