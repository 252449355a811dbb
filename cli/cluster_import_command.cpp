#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/cluster_import_view.h"
#include "cli/command.h"
#include "cli/new_file.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"
#include "costmodel/base/write_file.h"
#include "costmodel/cluster/cluster_file.h"
#include "import/cluster/imported_cluster.h"
#include "import/cluster/slurm.h"

namespace meshwright {
namespace {

constexpr auto kClusterImportFooter =
    "What a FILE is, is found out by its content: nvidia-smi topo -m, nvidia-smi -q -x, a "
    "topology\n"
    "of NCCL (NCCL_TOPO_DUMP_FILE), output of nccl-tests (text, or JSON of its -J), a list of "
    "hosts\n"
    "(node[01-16]), variables of a SLURM job, scontrol show topology, an XML file of hwloc "
    "(lstopo).\n"
    "A file that does not say whose it is describes every node; HOST=FILE says whose it is, and\n"
    "node[01-16]=FILE that it is of 16 nodes. Nodes with equal values become one type.\n"
    "Every value keeps where it comes from; where files disagree both are told. What no file says\n"
    "is assumed, and listed. Bad files end with exit code 20.\n\n"
    "Example, in the source folder:\n"
    "  meshwright cluster import tests/data/import/a100_nccl.xml --nodes 4 --out mine.json";

struct ClusterImportOptions {
  std::vector<std::string> files;
  std::optional<std::string> out, device, name;
  std::optional<std::int64_t> nodes;
  bool force = false;
};

// HOST=FILE, where a file is not called so itself.
FactFile read_argument(const std::string& text) {
  const auto equals = text.find('=');
  std::error_code unreadable;
  if (equals == text.npos || std::filesystem::exists(text, unreadable)) {
    return read_facts(read_text_file(text, kLargestFactFile), text);
  }
  const std::string file = text.substr(equals + 1);
  return read_facts(read_text_file(file, kLargestFactFile), file,
                    parse_hostlist(text.substr(0, equals), printable(text)));
}

std::string name_for(const ClusterImportOptions& options) {
  if (options.name) return *options.name;
  return options.out ? std::filesystem::path(*options.out).stem().string() : "imported";
}

void import_cluster(const ClusterImportOptions& options, const Session& session) {
  if (options.out) require_new_file("--out", *options.out, options.force);
  std::vector<FactFile> files;
  for (const std::string& file : options.files) files.push_back(read_argument(file));
  const ImportedCluster imported = make_cluster(
      files, {.name = name_for(options), .device = options.device, .nodes = options.nodes},
      session.data);
  const std::string text = cluster_file_text(imported.cluster);
  parse_cluster(text, options.out.value_or("the cluster"));  // what is written can be read
  if (options.out) write_text_file(*options.out, text);
  const std::string out = options.out.value_or("");
  session.json ? print_json(imported_cluster_json(imported, files, out))
               : print_text(imported_cluster_text(imported, files, out));
}

}  // namespace

void add_cluster_import_command(Command& cluster, Session& session) {
  Command command = cluster.subcommand(
      "import", "Makes a cluster file from topology dumps and measurements", kClusterImportFooter);
  const auto options = std::make_shared<ClusterImportOptions>();
  command.repeated("FILE", options->files, "The files, or HOST=FILE").required();
  command.text("--out", options->out, "The cluster file to write (if not given, none)");
  command.text("--name", options->name, "Of the cluster (if not given, the file's)");
  command.text("--device", options->device, "The preset of the devices, where no file names them");
  command.number("--nodes", options->nodes, "How many nodes, where no file lists them").positive();
  command.flag("--force", options->force, "Replace a file that is there");
  add_json_option(command, session);
  command.runs([options, &session] { import_cluster(*options, session); });
}

}  // namespace meshwright
