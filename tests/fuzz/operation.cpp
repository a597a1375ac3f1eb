// Operations and outcomes as text, for the trace of a failing program.
#include "operation.hpp"

namespace coir_fuzz {

std::string to_string(const operation& op) {
  if (op.what == operation::action::close) return "close c" + std::to_string(op.channel);
  std::string text = op.how == spelling::direct ? "direct(" : op.how == spelling::statement ? "select(" : "select_set(";
  for (const transfer& t : op.cases) {
    text += t.is_send ? "c" + std::to_string(t.channel) + "<-" + std::to_string(t.number)
                      : "<-c" + std::to_string(t.channel);
    text += ' ';
  }
  if (op.decoys) text += "decoys ";
  if (op.otherwise) text += "otherwise ";
  if (op.limit == time_limit::past) text += "limit=past ";
  if (op.limit == time_limit::soon) text += "limit=soon ";
  if (op.limit == time_limit::far) text += "limit=far ";
  if (op.stop >= 0) text += "stop=s" + std::to_string(op.stop) + ' ';
  if (text.back() == ' ') text.pop_back();
  text += ')';
  return text;
}

std::string to_string(const outcome& o) {
  switch (o.how) {
    case outcome::end::fired:
      return "case " + std::to_string(o.index) +
             (o.number != 0 ? " received " + std::to_string(o.number) : std::string(" fired"));
    case outcome::end::otherwise:
      return "otherwise";
    case outcome::end::timed_out:
      return "timed out";
    case outcome::end::stopped:
      return "stopped";
    case outcome::end::closed:
      return "closed_channel";
    case outcome::end::cancelled:
      return "cancelled";
    case outcome::end::broken:
      break;
  }
  return "BROKEN: " + o.what;
}

}  // namespace coir_fuzz
