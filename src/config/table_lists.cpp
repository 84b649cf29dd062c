// Declarations of the arrays of tables.
#include "config/recipes.h"
#include "config/setting_ref.h"

namespace ida::config {
namespace {

constexpr std::array<std::string_view, 3> kPasses = {"fprop", "dgrad", "wgrad"};
constexpr std::array<std::string_view, 3> kOperands = {"input", "weight", "grad"};
constexpr std::array<std::string_view, 7> kFormats = {"fp32", "bf16", "e4m3", "e5m2", "mxfp8", "mxfp4", "nvfp4"};
constexpr std::array<std::string_view, 2> kRoundings = {"nearest_even", "stochastic"};
constexpr std::array<std::string_view, 2> kTransforms = {"none", "hadamard16"};
constexpr std::array<std::string_view, 2> kPrescales = {"none", "power_of_two"};
constexpr std::array<std::string_view, 1> kWhens = {"gradient_noise"};

const std::array kOverrideFields = {
    Setting{.path = "match",
            .ref = at<&PrecisionOverride::match>,
            .help = "modules, such as lm_head or layers.0-1.*",
            .refusal = refuse_empty,
            .required = true},
    Setting{.path = "pass", .ref = at<&PrecisionOverride::pass>, .help = "one pass; all unless set", .choices = kPasses},
    Setting{.path = "operand",
            .ref = at<&PrecisionOverride::operand>,
            .help = "one operand; both unless set",
            .choices = kOperands},
    Setting{.path = "format", .ref = at<&PrecisionOverride::format>, .help = "number format", .choices = kFormats},
    Setting{.path = "rounding", .ref = at<&PrecisionOverride::rounding>, .help = "rounding", .choices = kRoundings},
    Setting{.path = "transform",
            .ref = at<&PrecisionOverride::transform>,
            .help = "applied before rounding",
            .choices = kTransforms},
    Setting{.path = "prescale",
            .ref = at<&PrecisionOverride::prescale>,
            .help = "factor before rounding",
            .choices = kPrescales},
};

const std::array kPhaseFields = {
    Setting{.path = "from",
            .ref = at<&PrecisionPhase::from>,
            .help = "integer: step; float: fraction of the run",
            .range = kCount},
    Setting{.path = "when", .ref = at<&PrecisionPhase::when>, .help = "condition that starts the phase", .choices = kWhens},
    Setting{.path = "recipe",
            .ref = at<&PrecisionPhase::recipe>,
            .help = "recipe from then on",
            .choices = kRecipes,
            .required = true},
};

template <auto kList>
TableList table_list(std::string_view path, std::string_view help, std::span<const Setting> fields) {
  return {.path = path,
          .help = help,
          .fields = fields,
          .size = [](const RunSettings& settings) { return (settings.precision.*kList).size(); },
          .resize = [](RunSettings& settings, std::size_t count) { (settings.precision.*kList).resize(count); },
          .element = [](RunSettings& settings, std::size_t index) -> void* { return &(settings.precision.*kList)[index]; }};
}

const std::array kTableLists = {
    table_list<&PrecisionSettings::overrides>("precision.override", "exceptions from the recipe", kOverrideFields),
    table_list<&PrecisionSettings::phases>("precision.phase", "recipes that take over during the run", kPhaseFields),
};

}  // namespace

std::span<const TableList> all_table_lists() { return kTableLists; }

}  // namespace ida::config
