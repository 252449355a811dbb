#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/export/target.h"

namespace meshwright {

// Options of the started program that belong together.
struct OptionGroup {
  std::string name;   // of the shell's array
  std::string about;  // a comment above it
  std::vector<std::string> words;
};

// What a node runs.
struct NodeScript {
  std::string about;  // comment lines
  // Variables that must be there, with what they are: of the program's path.
  std::vector<std::pair<std::string, std::string>> needs = {};
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::string starter;  // words before the program, such as "torchrun --nnodes 2"
  std::string program;  // as the shell reads it: "$MEGATRON"/pretrain_gpt.py
  std::vector<OptionGroup> options = {};
  OptionGroup data = {};  // replaced where the script is given words. Empty: these are added
};
std::string node_script(const NodeScript& script);

// "torchrun --nnodes 2 ..." for so many processes on each node.
std::string torchrun_words(const LaunchShape& launch);

// train.sh, and what starts it on all nodes where a launcher other than torchrun is asked for.
std::vector<ExportedFile> launch_files(const Export& what, const NodeScript& script);
// The command of the README.
std::string launch_command(const Export& what);

// Lines that a shell takes no notice of.
std::string comment_text(const std::string& text);

// First lines of every script and module.
std::string about_text(const Export& what);

}  // namespace meshwright
