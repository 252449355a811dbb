#include <fmt/format.h>
#include <sys/stat.h>

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "cli/profile_option.h"
#include "cli/profile_view.h"
#include "cli/text_table.h"
#include "costmodel/base/json_input.h"
#include "costmodel/base/presets.h"
#include "costmodel/base/write_file.h"
#include "costmodel/profile/nccl_tests.h"
#include "costmodel/profile/profile_file.h"
#include "costmodel/profile/profile_rows.h"

namespace meshwright {
namespace {

constexpr auto kProfileFooter =
    "P is a shipped profile (`profile list`), a database written by `benchmark`, or JSON written "
    "by\n`profile export`. Damaged databases end with exit code 21, locked or read-only ones with "
    "22, other\nbad files with 20; none is changed then.\n\nExample: meshwright profile show "
    "h100-sxm";

constexpr Bytes kLargestImport = 256_MiB;

struct ProfileCommandOptions {
  std::string profile, into, file, device, kind, machine, date, out;
  std::vector<std::string> from;
  std::int64_t devices = 0, nodes = 1;
};

void list(const Session& session) {
  std::vector<std::vector<std::string>> rows = {{"profile", "device", "kernels", "transfers"}};
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const std::string& name : preset_names(session.data / "profiles")) {
    const Profile profile = profile_from_option(name, session);
    std::set<std::string> devices;
    for (const KernelTime& row : profile.kernels) devices.insert(row.device);
    for (const TransferTime& row : profile.transfers) devices.insert(row.device);
    std::string joined;
    for (const std::string& device : devices) joined += (joined.empty() ? "" : ", ") + device;
    rows.push_back({name, joined, std::to_string(profile.kernels.size()),
                    std::to_string(profile.transfers.size())});
    entries.push_back({{"name", name},
                       {"devices", devices},
                       {"kernels", profile.kernels.size()},
                       {"transfers", profile.transfers.size()}});
  }
  session.json ? print_json({{"profiles", entries}}) : print_text(table_text(rows, 0));
}

void show(const ProfileCommandOptions& options, const Session& session) {
  const Profile profile = profile_from_option(options.profile, session);
  session.json ? print_json(profile_view_json(profile)) : print_text(profile_view_text(profile));
}

// What went into a file.
void print_added(const std::string& file, std::size_t rows, const Session& session) {
  session.json ? print_json({{"into", file}, {"rows", rows}})
               : print_text(fmt::format("{} rows into {}\n", rows, printable(file)));
}

void merge(const ProfileCommandOptions& options, const Session& session) {
  Profile all;
  for (const std::string& name : options.from) {
    append(all, profile_from_option(name, session));
  }
  all = sorted(all);
  add_to_profile(options.into, all);
  print_added(options.into, all.row_count(), session);
}

// When a file was written.
std::string date_of(const std::string& file) {
  struct stat status {};
  struct tm parts {};
  char text[16] = {};
  if (::stat(file.c_str(), &status) == 0 && ::gmtime_r(&status.st_mtime, &parts) != nullptr) {
    std::strftime(text, sizeof(text), "%Y-%m-%d", &parts);
  }
  return text;
}

NcclTestsSettings settings_of(const ProfileCommandOptions& options) {
  if (options.device.empty()) {
    throw UsageError("output of nccl-tests needs --device, the name of a device type of a cluster");
  }
  NcclTestsSettings settings{.device = options.device,
                             .date = options.date.empty() ? date_of(options.file) : options.date};
  if (!options.kind.empty()) {
    settings.kind = parse_transfer_kind(options.kind);
    if (!settings.kind) {
      throw UsageError(
          fmt::format("--kind {}: expected all_reduce, reduce_scatter, all_gather, "
                      "all_to_all, broadcast or send",
                      printable(options.kind)));
    }
  }
  if (!is_date(settings.date)) {
    throw UsageError(fmt::format("--date {}: expected a date such as 2026-02-03, 2026-02 or 2026",
                                 printable(settings.date)));
  }
  if (options.devices > 0) settings.place = {options.devices, options.nodes};
  if (settings.place && !is_place(*settings.place)) {
    throw UsageError(
        fmt::format("--devices {} --nodes {}: expected two devices or more, as many on each node",
                    options.devices, options.nodes));
  }
  if (!options.machine.empty()) settings.machine = options.machine;
  return settings;
}

Profile imported(const ProfileCommandOptions& options) {
  const std::string text = read_text_file(options.file, kLargestImport);
  if (text.find("\"meshwright-profile\"") != text.npos) return parse_profile(text, options.file);
  return parse_nccl_tests(text, options.file, settings_of(options));
}

void import_file(const ProfileCommandOptions& options, const Session& session) {
  const Profile profile = imported(options);
  add_to_profile(options.into, profile);
  print_added(options.into, profile.row_count(), session);
}

void export_file(const ProfileCommandOptions& options, const Session& session) {
  const Profile profile = profile_from_option(options.profile, session);
  if (options.out.empty()) return print_text(profile_text(profile));
  write_text_file(options.out, profile_text(profile));
  print_added(options.out, profile.row_count(), session);
}

void add_list(Command& profile, Session& session) {
  Command command =
      profile.subcommand("list", "The shipped profiles", "Example: meshwright profile list");
  add_json_option(command, session);
  command.runs([&session] { list(session); });
}

void add_show(Command& profile, Session& session,
              const std::shared_ptr<ProfileCommandOptions>& options) {
  Command command = profile.subcommand("show", "What was measured, by whom, over which sizes",
                                       "Example: meshwright profile show h100-sxm");
  command.text("P", options->profile, "The profile").required();
  add_json_option(command, session);
  command.runs([options, &session] { show(*options, session); });
}

void add_merge(Command& profile, Session& session,
               const std::shared_ptr<ProfileCommandOptions>& options) {
  Command command = profile.subcommand(
      "merge", "Puts profiles together; of the same thing by the same source the newest stays",
      "Example: meshwright profile merge h100-sxm h200-sxm --into two.db");
  command.repeated("P", options->from, "The profiles").required();
  command.text("--into", options->into, "A database, or JSON (.json); made if missing").required();
  add_json_option(command, session);
  command.runs([options, &session] { merge(*options, session); });
}

void add_import(Command& profile, Session& session,
                const std::shared_ptr<ProfileCommandOptions>& options) {
  Command command = profile.subcommand(
      "import", "Reads an exported profile, or output of nccl-tests (text, or JSON of its -J)",
      "meshwright profile import all_reduce.log --device h100-sxm --into my.db");
  command.text("FILE", options->file, "The file").required();
  command.text("--into", options->into, "A database, or JSON (.json); made if missing").required();
  command.text("--device", options->device, "nccl-tests: the device type, as h100-sxm");
  command.text("--kind", options->kind, "nccl-tests: all_reduce, ... where not in the file");
  command.number("--devices", options->devices, "nccl-tests: how many, where not in the file")
      .positive();
  command.number("--nodes", options->nodes, "nccl-tests: over how many nodes, with --devices")
      .positive();
  command.text("--machine", options->machine, "nccl-tests: what to call the machine");
  command.text("--date", options->date, "nccl-tests: when (if not given, the file's date)");
  add_json_option(command, session);
  command.runs([options, &session] { import_file(*options, session); });
}

void add_export(Command& profile, Session& session,
                const std::shared_ptr<ProfileCommandOptions>& options) {
  Command command = profile.subcommand("export", "Writes a whole profile as JSON",
                                       "Example: meshwright profile export v100-sxm2");
  command.text("P", options->profile, "The profile").required();
  command.text("--out", options->out, "A file (if not given: standard output)");
  add_json_option(command, session);
  command.runs([options, &session] { export_file(*options, session); });
}

}  // namespace

void add_profile_command(Command& program, Session& session) {
  Command command =
      program.subcommand("profile", "Looks after profiles of measured times", kProfileFooter);
  command.needs_subcommand();
  const auto options = std::make_shared<ProfileCommandOptions>();
  add_list(command, session);
  add_show(command, session, options);
  add_merge(command, session, options);
  add_import(command, session, options);
  add_export(command, session, options);
}

}  // namespace meshwright
