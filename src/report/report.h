// report.html: one page that shows a run, with nothing loaded from elsewhere.
#pragma once
#include <string>

#include "report/run_files.h"

namespace ida::report {

// The page: figures, curves, what executed, samples, resolved config, environment. Works on a run without steps and
// names what is missing or damaged.
std::string render_report(const RunFiles& files);

// Reads the folder, writes <run_dir>/report.html as a whole and returns its path; errors as read_run.
std::string write_report(const std::string& run_dir);

}  // namespace ida::report
