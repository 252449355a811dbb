#include "import/plan/imported_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "costmodel/base/input_error.h"
#include "import/input/text_lines.h"
#include "import/plan/config_files.h"
#include "import/plan/python_module.h"
#include "import/plan/shell_script.h"
#include "import/plan/target_readers.h"

namespace meshwright {
namespace {

using ReadTarget = void (*)(ForeignSettings& settings, PlanFrame& frame);

// The settings of one file, and who reads them.
struct ReadFile {
  ReadTarget read = nullptr;
  std::vector<ForeignSetting> settings;
  std::optional<std::int64_t> nodes, devices_per_node;
};

bool has_key(const std::vector<ForeignSetting>& settings, std::string_view start) {
  return std::ranges::any_of(
      settings, [&](const ForeignSetting& setting) { return setting.key.starts_with(start); });
}

// One without options of Megatron-LM starts a program that another file configures.
ReadFile read_script(const PlanFile& file, const PlanWishes& wishes) {
  const ShellLaunch launch = read_shell(file.text, file.source, wishes.arguments);
  ReadFile read{nullptr, {}, launch.nodes, launch.devices_per_node};
  for (const std::string_view option :
       {"--tensor-model-parallel-size", "--micro-batch-size", "--num-layers",
        "--pipeline-model-parallel-size", "--use-distributed-optimizer"}) {
    const auto is_option = [&](const ShellWord& word) {
      return to_text(word.value).starts_with(option);
    };
    if (std::ranges::any_of(launch.words, is_option)) read.read = read_megatron_lm;
  }
  if (read.read) read.settings = options_in(launch, file.source);
  return read;
}

[[noreturn]] void fail_unknown(const PlanFile& file, std::string_view what) {
  throw InputError(fmt::format(
      "{}: is {} of no framework that is known here: Megatron-LM (a script), DeepSpeed "
      "(JSON), torchtitan (TOML, Python), nanotron or Accelerate (YAML), Megatron-Bridge "
      "or Colossal-AI (Python)",
      printable(file.source), what));
}

ReadFile read_json_file(const PlanFile& file) {
  ReadFile read{read_deepspeed, parse_json(file.text, file.source)};
  for (const char* key : {"train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization",
                          "bf16.", "fp16.", "gradient_accumulation_steps"}) {
    if (has_key(read.settings, key)) return read;
  }
  fail_unknown(file, "JSON");
}

ReadFile read_yaml_file(const PlanFile& file) {
  ReadFile read{nullptr, parse_yaml(file.text, file.source)};
  if (has_key(read.settings, "parallelism.")) {
    read.read = read_nanotron;
  } else if (has_key(read.settings, "distributed_type")) {
    read.read = read_accelerate;
  } else {
    fail_unknown(file, "YAML");
  }
  return read;
}

ReadFile read_toml_file(const PlanFile& file) {
  ReadFile read{read_torchtitan, parse_toml(file.text, file.source)};
  if (!has_key(read.settings, "parallelism.") && !has_key(read.settings, "training.")) {
    fail_unknown(file, "TOML");
  }
  return read;
}

// Of "cfg.model.tp" only "model.tp" counts: what a recipe calls its configuration does not.
ReadFile read_python_file(const PlanFile& file, const PlanWishes& wishes) {
  ReadFile read{nullptr, parse_python(file.text, file.source, wishes.function)};
  if (file.text.find("Plugin(") != file.text.npos) {
    read.read = read_colossal_ai;
    return read;
  }
  if (file.text.find("torchtitan") != file.text.npos) read.read = read_torchtitan_python;
  if (file.text.find("megatron.bridge") != file.text.npos) read.read = read_megatron_bridge;
  if (!read.read) fail_unknown(file, "Python");
  for (ForeignSetting& setting : read.settings) {
    for (const std::string_view name : {"cfg.", "config.", "recipe."}) {
      if (setting.key.starts_with(name)) setting.key.erase(0, name.size());
    }
  }
  return read;
}

bool is_python(const std::string& text) {
  return std::ranges::any_of(lines_of(text), [](const std::string& line) {
    return line.starts_with("import ") || line.starts_with("from ") || line.starts_with("def ");
  });
}

// The first line that is neither empty nor a comment.
std::string first_line(const std::string& text) {
  for (const std::string& line : lines_of(text)) {
    const std::string_view words = trimmed(line);
    if (!words.empty() && words[0] != '#') return std::string(words);
  }
  return "";
}

bool is_toml(const std::string& line) { return line.starts_with('[') && line.ends_with(']'); }

// "key:" or "key: value", or the start of a document.
bool is_yaml(const std::string& line) {
  const auto colon = line.find(':');
  const bool key = colon != line.npos && line.find_first_of(" =$\"'(") > colon;
  return line == "---" || (key && (colon + 1 == line.size() || line[colon + 1] == ' '));
}

ReadFile read_file(const PlanFile& file, const PlanWishes& wishes) {
  require_text(file.text, file.source);
  const std::string line = first_line(file.text);
  if (line.starts_with('{')) return read_json_file(file);
  if (is_toml(line)) return read_toml_file(file);
  if (is_yaml(line)) return read_yaml_file(file);
  if (is_python(file.text)) return read_python_file(file, wishes);
  return read_script(file, wishes);
}

// Pydantic reads numbers in texts, which DeepSpeed has for the sections of its file.
NumbersInText numbers_in_text(ReadTarget read) {
  if (read == read_megatron_lm || read == read_accelerate) return NumbersInText::Everywhere;
  return read == read_deepspeed ? NumbersInText::InSections : NumbersInText::Nowhere;
}

}  // namespace

ImportedPlan import_plan(const std::vector<PlanFile>& files, const PlanWishes& wishes,
                         const std::vector<Software>& software,
                         const std::vector<TargetNames>& names) {
  PlanFrame frame(wishes, software);
  ReadFile all;
  for (const PlanFile& file : files) {
    ReadFile one = read_file(file, wishes);
    if (all.read && one.read && one.read != all.read) {
      throw InputError(fmt::format("{}: is of another framework than {}", printable(file.source),
                                   printable(files.front().source)));
    }
    if (one.read) all.read = one.read;
    std::ranges::move(one.settings, std::back_inserter(all.settings));
    if (one.nodes) frame.nodes = one.nodes;
    if (one.devices_per_node) frame.devices_per_node = one.devices_per_node;
  }
  if (!all.read) {
    throw InputError(
        fmt::format("{}: no option is one of Megatron-LM that says a plan, such as "
                    "--tensor-model-parallel-size 8",
                    printable(files.front().source)));
  }
  ForeignSettings settings(std::move(all.settings), wishes.left_out, numbers_in_text(all.read));
  all.read(settings, frame);
  for (const ForeignSetting& setting : settings.ignored()) {
    const bool known = is_known_name(names, frame.plan.target, setting);
    (known ? frame.plan.ignored : frame.plan.unknown).push_back(setting);
    if (!known) settings.refuse_slip(setting, frame.plan.target);
  }
  if (!settings.refusals().empty()) {
    throw InputError(fmt::format("{}", fmt::join(settings.refusals(), "; ")));
  }
  frame.finish();
  frame.plan.set_aside = settings.set_aside();
  return std::move(frame.plan);
}

}  // namespace meshwright
