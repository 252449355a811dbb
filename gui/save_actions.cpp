#include "gui/save_actions.h"

#include "costmodel/base/write_file.h"
#include "gui/plans_model.h"
#include "simulator/plan/plan_file.h"
#include "simulator/report/trace_file.h"

namespace meshwright {
namespace {

const PlanDetail& selected_plan(const GuiSession& session) {
  if (!session.detail()) throw UsageError("no plan is selected");
  return *session.detail();
}

}  // namespace

void save_table(const GuiSession& session, const std::string& file) {
  if (session.visible().empty()) throw UsageError("the table is empty");
  write_text_file(file, rows_text(session, true));
}

void save_trace(const GuiSession& session, const std::string& file) {
  const Prediction& played = selected_plan(session).prediction;
  write_text_file(file, trace_text(played.represented.programs, played.timeline));
}

void save_plan(const GuiSession& session, const std::string& file) {
  const PlanDetail& detail = selected_plan(session);
  write_text_file(file, plan_text(detail.plan, detail.asked->setting->graph.dims));
}

}  // namespace meshwright
