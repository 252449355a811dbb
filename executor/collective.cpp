#include "executor/collective.h"

#include "executor/common_rows.h"
#include "executor/reduce.h"
#include "executor/shared_stretch.h"

namespace meshwright {
namespace {

class MemberShare {
 public:
  MemberShare(std::span<const CollectiveMember> members, std::size_t place, Precision precision)
      : members_(members),
        place_(place),
        precision_(precision),
        transfer_(*members[place].transfer),
        width_(
            static_cast<std::size_t>(bytes_per_element(element_of(transfer_), precision).value())) {
  }

  void run() const {
    switch (transfer_.kind) {
      case TransferKind::AllReduce:
        return all_reduce();
      case TransferKind::ReduceScatter:
        return reduce_scatter();
      case TransferKind::AllGather:
        for (std::size_t from = 0; from < members_.size(); ++from) gather(from);
        return;
      case TransferKind::AllToAll:
        for (std::size_t from = 0; from < members_.size(); ++from) take_part(from);
        return;
      case TransferKind::Broadcast:
        return copy_elements({&*members_[0].transfer->source, members_[0].source},
                             {&*transfer_.target, members_[place_].target}, width_);
      case TransferKind::Send:
      case TransferKind::Receive:
        return;
    }
  }

 private:
  void reduce_rows(std::span<const Row> sources, std::size_t count, const Row& result) const {
    reduce(transfer_.reduction, element_of(transfer_), precision_, sources, count, result);
  }

  // Each member reduces a share of all elements and gives it to the others.
  void all_reduce() const {
    std::vector<Placed> operands;
    for (const CollectiveMember& m : members_) operands.push_back({&*m.transfer->source, m.source});
    for (const CollectiveMember& m : members_) operands.push_back({&*m.transfer->target, m.target});
    CommonRows common(operands, width_);
    common.keep_share(place_, members_.size());
    common.for_each([&](std::span<const Row> rows) {
      const auto targets = rows.subspan(members_.size());
      reduce_rows(rows.first(members_.size()), common.row_size(), targets[place_]);
      for (std::size_t m = 0; m < targets.size(); ++m) {
        if (m != place_) copy_row(targets[place_], targets[m], common.row_size(), width_);
      }
    });
  }

  void reduce_scatter() const {
    const std::size_t dim = transfer_.source_cut.dim;
    const auto part =
        part_of(transfer_.source_cut, transfer_.source->sizes[dim], place_, members_.size());
    for (const SharedStretch& s : stretches(part, whole_of(part))) {
      std::vector<Operand> boxes;
      for (const CollectiveMember& m : members_) {
        boxes.push_back(narrowed(*m.transfer->source, dim, s.from, s.size));
      }
      boxes.push_back(narrowed(*transfer_.target, dim, s.to, s.size));
      std::vector<Placed> operands;
      for (std::size_t m = 0; m < members_.size(); ++m) {
        operands.push_back({&boxes[m], members_[m].source});
      }
      operands.push_back({&boxes.back(), members_[place_].target});
      const CommonRows common(operands, width_);
      common.for_each([&](std::span<const Row> rows) {
        reduce_rows(rows.first(members_.size()), common.row_size(), rows.back());
      });
    }
  }

  void gather(std::size_t from) const {
    const std::size_t dim = transfer_.target_cut.dim;
    const auto part =
        part_of(transfer_.target_cut, transfer_.target->sizes[dim], from, members_.size());
    for (const SharedStretch& s : stretches(whole_of(part), part)) {
      copy(from, narrowed(*members_[from].transfer->source, dim, s.from, s.size),
           narrowed(*transfer_.target, dim, s.to, s.size));
    }
  }

  // What another member has for this one.
  void take_part(std::size_t from) const {
    const Operand& source = *members_[from].transfer->source;
    const Operand& target = *transfer_.target;
    const std::size_t given = transfer_.source_cut.dim, taken = transfer_.target_cut.dim;
    const auto out =
        part_of(members_[from].transfer->source_cut, source.sizes[given], place_, members_.size());
    const auto in = part_of(transfer_.target_cut, target.sizes[taken], from, members_.size());
    if (given == taken) {
      for (const SharedStretch& s : stretches(out, in)) {
        copy(from, narrowed(source, given, s.from, s.size), narrowed(target, given, s.to, s.size));
      }
      return;
    }
    for (const SharedStretch& a : stretches(out, whole_of(out))) {
      for (const SharedStretch& b : stretches(whole_of(in), in)) {
        copy(from, narrowed(narrowed(source, given, a.from, a.size), taken, b.from, b.size),
             narrowed(narrowed(target, given, a.to, a.size), taken, b.to, b.size));
      }
    }
  }

  void copy(std::size_t from, const Operand& source, const Operand& target) const {
    copy_elements({&source, members_[from].source}, {&target, members_[place_].target}, width_);
  }

  std::span<const CollectiveMember> members_;
  std::size_t place_;
  Precision precision_;
  const Transfer& transfer_;  // of this member
  std::size_t width_;
};

}  // namespace

void do_share(std::span<const CollectiveMember> members, std::size_t place, Precision precision) {
  MemberShare(members, place, precision).run();
}

}  // namespace meshwright
