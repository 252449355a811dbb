#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "costmodel/cluster/cluster.h"
#include "costmodel/model/model.h"
#include "simulator/engine/scene.h"
#include "simulator/plan/plan.h"
#include "simulator/program/program.h"

namespace meshwright {

// The devices of a plan in classes of equal ones, with one program for each class. Devices are
// equal when their programs are, but for the names of devices, and so are the links they use and
// the devices they transfer with: then all of a class do the same at the same time, and playing
// one of each gives the times and the memory of all, to the bit.
struct Represented {
  std::vector<Program> programs;               // of the first device of each class, by device
  std::vector<std::vector<DeviceId>> classes;  // the devices of each
  Scene scene;                                 // of `programs`

  Represented() = default;
  Represented(Represented&&) = default;
  Represented& operator=(Represented&&) = default;
};

// Lowers only the programs it returns. A plan whose devices cannot be told apart by their place (a
// mesh that differs between slots, a group that is no product of axes) has one class for each.
Represented represent(const Model& model, const Plan& plan, const Cluster& cluster);

// The same; none as soon as there is a program that is not wanted.
using IsWanted = std::function<bool(const Program&)>;
std::optional<Represented> represent_if(const Model& model, const Plan& plan,
                                        const Cluster& cluster, const IsWanted& is_wanted);

// Every device by itself.
Represented represent_all(const Model& model, const Plan& plan, const Cluster& cluster);

}  // namespace meshwright
