#include "simulator/lowering/fragment.h"
#include "simulator/lowering/program_writer.h"

namespace meshwright {

Program program_of(const Fragment& fragment, const Plan& plan, DeviceId device) {
  Program program{.device = device, .precision = plan.precision};
  program.batch = {.global_batch = plan.global_batch,
                   .first_row = 0,
                   .micro_batch = plan.micro_batch,
                   .sequence = plan.sequence};
  ProgramWriter writer(program);
  for (const FragmentBuffer& buffer : fragment.buffers) {
    const BufferId id = writer.add_buffer(buffer.buffer);
    if (std::holds_alternative<LossSum>(buffer.holds)) program.loss = id;
  }
  OrderKey key;
  for (const auto* tasks : {&fragment.forward, &fragment.backward}) {
    for (const FragmentTask& task : *tasks) {
      std::vector<BufferId> operands;
      for (const FragmentBufferId id : task.operands) operands.push_back(BufferId(id.index()));
      writer.add_task(kind_of(task.work), writer.add_work(task.work), operands, key, 0,
                      {task.recompute, task.waits_for_compute});
      ++key.index;
    }
  }
  writer.finish();
  return program;
}

}  // namespace meshwright
