#include "tests/standin/dnn_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace meshwright::standin {
namespace {

std::int64_t dot(const DnnSizes& a, const DnnSizes& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
}

template <class Use>
void for_places(const DnnSizes& sizes, Use use) {
  std::size_t number = 0;
  for (std::int64_t a = 0; a < sizes[0]; ++a) {
    for (std::int64_t b = 0; b < sizes[1]; ++b) {
      for (std::int64_t c = 0; c < sizes[2]; ++c) {
        for (std::int64_t d = 0; d < sizes[3]; ++d) use(DnnSizes{a, b, c, d}, number++);
      }
    }
  }
}

// All values of a graph while it runs, dense in the order of their places.
class Run {
 public:
  Run(const std::map<std::int64_t, void*>& memory, const std::map<std::int64_t, double>& numbers)
      : memory_(memory), numbers_(numbers) {}

  void run(const DnnOperation& operation) {
    std::vector<double> result(static_cast<std::size_t>(operation.output.count()));
    switch (operation.kind) {
      case DnnKind::Product:
        multiply(operation, result);
        break;
      case DnnKind::Pointwise:
        apply(operation, result);
        break;
      case DnnKind::Reduction:
        reduce(operation, result);
        break;
      case DnnKind::Reshape:
        reshape(operation, result);
        break;
    }
    // What parts of a product are added to in memory must hold zeros before.
    const DnnTensor& output = operation.output;
    const bool adds =
        operation.kind == DnnKind::Product && !output.is_virtual && output.number == Number::Float;
    keep(output, std::move(result), adds);
  }

 private:
  const std::vector<double>& values(const DnnTensor& tensor) {
    auto [found, absent] = values_.try_emplace(tensor.id);
    if (!absent) return found->second;
    std::vector<double>& all = found->second;
    all.resize(static_cast<std::size_t>(tensor.count()));
    if (tensor.by_value) {
      all[0] = numbers_.at(tensor.id);
      return all;
    }
    for_places(tensor.sizes, [&](const DnnSizes& place, std::size_t i) {
      all[i] = read_number(tensor.number, memory_.at(tensor.id), dot(place, tensor.steps));
    });
    return all;
  }
  // A size of 1 is repeated.
  double at(const DnnTensor& tensor, const DnnSizes& place) {
    std::int64_t index = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      index = index * tensor.sizes[i] + (tensor.sizes[i] == 1 ? 0 : place[i]);
    }
    return values(tensor)[static_cast<std::size_t>(index)];
  }
  void keep(const DnnTensor& tensor, std::vector<double> result, bool adds) {
    for_places(tensor.sizes, [&](const DnnSizes& place, std::size_t i) {
      result[i] = rounded_to(tensor.number, result[i]);
      if (tensor.is_virtual) return;
      void* const memory = memory_.at(tensor.id);
      const std::int64_t offset = dot(place, tensor.steps);
      if (adds) result[i] += read_number(tensor.number, memory, offset);
      write_number(tensor.number, memory, offset, result[i]);
    });
    values_[tensor.id] = std::move(result);
  }

  void multiply(const DnnOperation& operation, std::vector<double>& result) {
    const DnnTensor &a = operation.inputs[0], &b = operation.inputs[1];
    for_places(operation.output.sizes, [&](const DnnSizes& place, std::size_t i) {
      for (std::int64_t k = 0; k < a.sizes[3]; ++k) {
        result[i] +=
            at(a, {place[0], place[1], place[2], k}) * at(b, {place[0], place[1], k, place[3]});
      }
    });
  }
  void apply(const DnnOperation& operation, std::vector<double>& result) {
    const auto& inputs = operation.inputs;
    for_places(operation.output.sizes, [&](const DnnSizes& place, std::size_t i) {
      if (operation.mode == CUDNN_POINTWISE_GEN_INDEX) {
        result[i] = static_cast<double>(place[static_cast<std::size_t>(operation.axis)]);
        return;
      }
      const double x = at(inputs[0], place);
      const double b = inputs.size() > 1 ? at(inputs[1], place) : 0;
      switch (operation.mode) {
        case CUDNN_POINTWISE_MUL:
          result[i] = x * b;
          break;
        case CUDNN_POINTWISE_ADD:
          result[i] = x + b;
          break;
        case CUDNN_POINTWISE_SUB:
          result[i] = x - b;
          break;
        case CUDNN_POINTWISE_DIV:
          result[i] = x / b;
          break;
        case CUDNN_POINTWISE_EXP:
          result[i] = std::exp(x);
          break;
        case CUDNN_POINTWISE_LOG:
          result[i] = std::log(x);
          break;
        case CUDNN_POINTWISE_CMP_GE:
          result[i] = x >= b ? 1 : 0;
          break;
        case CUDNN_POINTWISE_BINARY_SELECT:
          result[i] = at(inputs[2], place) != 0 ? x : b;
          break;
        default:
          result[i] = x;
      }
    });
  }
  void reduce(const DnnOperation& operation, std::vector<double>& result) {
    const DnnTensor &x = operation.inputs[0], &y = operation.output;
    const bool largest = operation.mode == CUDNN_REDUCE_TENSOR_MAX;
    if (largest) std::fill(result.begin(), result.end(), -std::numeric_limits<double>::infinity());
    for_places(x.sizes, [&](const DnnSizes& place, std::size_t i) {
      std::int64_t index = 0;
      for (std::size_t k = 0; k < 4; ++k) {
        index = index * y.sizes[k] + (y.sizes[k] == 1 ? 0 : place[k]);
      }
      double& to = result[static_cast<std::size_t>(index)];
      const double value = values(x)[i];
      to = largest ? std::max(to, value) : to + value;
    });
  }
  // Both are the same memory, seen with other steps.
  void reshape(const DnnOperation& operation, std::vector<double>& result) {
    const DnnTensor &x = operation.inputs[0], &y = operation.output;
    std::map<std::int64_t, double> memory;
    for_places(x.sizes, [&](const DnnSizes& place, std::size_t i) {
      memory[dot(place, x.steps)] = values(x)[i];
    });
    for_places(y.sizes, [&](const DnnSizes& place, std::size_t i) {
      result[i] = memory.at(dot(place, y.steps));
    });
  }

  const std::map<std::int64_t, void*>& memory_;
  const std::map<std::int64_t, double>& numbers_;
  std::map<std::int64_t, std::vector<double>> values_;
};

bool is_known(int mode) {
  const std::set<int> known = {CUDNN_POINTWISE_MUL,       CUDNN_POINTWISE_ADD,
                               CUDNN_POINTWISE_SUB,       CUDNN_POINTWISE_DIV,
                               CUDNN_POINTWISE_EXP,       CUDNN_POINTWISE_LOG,
                               CUDNN_POINTWISE_CMP_GE,    CUDNN_POINTWISE_BINARY_SELECT,
                               CUDNN_POINTWISE_GEN_INDEX, CUDNN_POINTWISE_IDENTITY};
  return known.contains(mode);
}

std::string refusal_of_product(const DnnOperation& operation) {
  const DnnSizes &a = operation.inputs[0].sizes, &b = operation.inputs[1].sizes;
  const bool fits = a[0] == b[0] && a[1] == b[1] && a[3] == b[2];
  return fits && operation.output.sizes == DnnSizes{a[0], a[1], a[2], b[3]}
             ? ""
             : "matrices whose sizes do not go together";
}

}  // namespace

std::size_t DnnTensor::bytes() const {
  DnnSizes last = sizes;
  for (std::int64_t& size : last) --size;
  return static_cast<std::size_t>(dot(last, steps) + 1) * bytes_of(number);
}

std::map<std::int64_t, DnnTensor> DnnGraph::outside() const {
  std::map<std::int64_t, DnnTensor> all;
  for (const DnnOperation& operation : operations) {
    for (const DnnTensor& input : operation.inputs) {
      if (!input.is_virtual) all.emplace(input.id, input);
    }
    if (!operation.output.is_virtual) all.emplace(operation.output.id, operation.output);
  }
  return all;
}

std::string refusal_of(const DnnOperation& operation) {
  if (operation.kind == DnnKind::Product) return refusal_of_product(operation);
  const DnnTensor &x = operation.inputs[0], &y = operation.output;
  if (operation.kind == DnnKind::Reshape) {
    return x.count() == y.count() ? "" : "a reshape to another number of elements";
  }
  if (operation.kind == DnnKind::Pointwise) {
    if (!is_known(operation.mode)) return "a pointwise operation that this does not compute";
    for (const DnnTensor& input : operation.inputs) {
      for (std::size_t i = 0; i < 4; ++i) {
        if (input.sizes[i] != y.sizes[i] && input.sizes[i] != 1) return "sizes that differ";
      }
    }
  }
  return "";
}

bool has_engine(const DnnGraph& graph) {
  for (const auto& [id, tensor] : graph.outside()) {
    const bool small = tensor.number == Number::Half || tensor.number == Number::Bfloat;
    // The size of a head is the dimension whose entries are next to each other.
    const std::int64_t head = tensor.steps[3] == 1 ? tensor.sizes[3] : tensor.sizes[2];
    if (small && (head % 8 != 0 || head > 256)) return false;
  }
  return true;
}

void run_graph(const DnnGraph& graph, const std::map<std::int64_t, void*>& memory,
               const std::map<std::int64_t, double>& numbers) {
  Run run(memory, numbers);
  for (const DnnOperation& operation : graph.operations) run.run(operation);
}

}  // namespace meshwright::standin
