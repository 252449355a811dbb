#include "gui/summary_view.h"

#include <fmt/format.h>

#include <QScrollBar>
#include <cmath>

#include "cli/explain_view.h"
#include "cli/report_view.h"
#include "gui/theme.h"

namespace meshwright {
namespace {

std::string html(const std::string& text) {
  return QString::fromStdString(text).toHtmlEscaped().toStdString();
}

std::string row(const std::string& name, const std::string& value) {
  return fmt::format(
      "<tr><td style='padding-right:12px'>{}</td><td align='right'><b>{}</b></td></tr>", html(name),
      html(value));
}

std::string percent_of(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string verdict(const Report& report, const Theme& colors) {
  const DeviceReport& device = report.fullest();
  const char* words = report.fits == Fit::Yes     ? "Fits"
                      : report.fits == Fit::Close ? "Too close to call"
                                                  : "Does not fit";
  const QColor color = report.fits == Fit::Yes ? colors.fits : colors.limit;
  return fmt::format(
      "<p style='font-size:large'><b style='color:{}'>{}</b></p><p>device {}, the fullest, needs "
      "{} "
      "of {}</p>",
      color.name().toStdString(), words, device.device.index(), to_text(Report::needed(device)),
      to_text(device.capacity));
}

std::string figures(const Report& report, const std::optional<TokenBudget>& budget) {
  std::string text = "<table width='100%' cellpadding='2'>";
  text += row("step", to_text(report.step));
  text += row("tokens/s", count_to_text(std::llround(report.tokens_per_s)));
  text += row("tokens/s of each device", count_to_text(std::llround(tokens_per_device(report))));
  text += row("of the model, each device",
              fmt::format("{:.1f} TFLOP/s", flops_per_device(report) / 1e12));
  text += row("MFU", percent_of(report.mfu));
  text += row("HFU", percent_of(report.hfu));
  text += row("bubble", percent_of(report.bubble));
  if (budget) {
    const auto days = days_of(*budget, report), cost = cost_of(*budget, report);
    text += row("days", days ? fmt::format("{:.3g}", *days) : "never");
    if (cost) text += row("money", "$ " + count_to_text(std::llround(*cost)));
  }
  return text + "</table>";
}

std::string reasons(const PlanDetail& detail, const std::vector<KnobPrice>* knobs) {
  Explanation explanation{.step = detail.step};
  if (knobs) explanation.knobs = *knobs;
  std::string text = "<p><b>What binds the step</b></p><ul style='margin-left:-24px'>";
  for (const Binding& binding : bindings_of(explanation)) {
    text += fmt::format("<li><b>{}</b>: {}</li>", html(binding.resource), html(binding.words));
  }
  return text + "</ul>";
}

}  // namespace

SummaryView::SummaryView(GuiSession& session, QWidget* parent)
    : QTextBrowser(parent), session_(session) {
  setAccessibleName("Summary of the plan");
  setFrameShape(QFrame::NoFrame);
  connect(&session, &GuiSession::detail_changed, this, [this] { show_plan(); });
  connect(&session, &GuiSession::knobs_changed, this, [this] { show_plan(); });
  connect(&session, &GuiSession::theme_changed, this, [this] { show_plan(); });
  connect(&session, &GuiSession::search_changed, this, [this] { show_plan(); });
  show_plan();
}

void SummaryView::show_plan() {
  const auto& detail = session_.detail();
  if (!detail) return clear();
  const Report& report = detail->prediction.report;
  const int place = verticalScrollBar()->value();
  std::string text = verdict(report, theme(session_.dark()));
  text += figures(report, detail->asked->budget);
  text += fmt::format("<p><b>Plan</b><br><code>{}</code></p>", html(detail->name));
  text += reasons(*detail, session_.knobs().get());
  if (!session_.search().text.empty()) {
    const std::string& answer = session_.search().text;
    const auto proven = answer.find("Proven:");
    if (proven != answer.npos) {
      text += fmt::format("<p><b>How good the first plan is</b></p><p>{}</p>",
                          html(answer.substr(proven, answer.find("Space:") - proven)));
    }
  }
  setHtml(QString::fromStdString(text));
  verticalScrollBar()->setValue(place);
}

}  // namespace meshwright
