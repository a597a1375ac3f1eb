// A service that runs until it is asked to stop, and then finishes what it has accepted. Each fiber waits for its work
// and for the stop in one select; the stop reaches them through a std::stop_token. Work accepted before the stop is
// answered, the door is closed to later requests, and run() returns when the last fiber has ended.
#include <iostream>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/select.hpp>

namespace {

struct request {
  std::string text;
  coir::chan<std::string> reply = coir::make_chan<std::string>(1);
};

/// Takes requests in until stopped; returns how many it accepted.
int accept(coir::recv_chan<request> door, coir::send_chan<request> accepted, std::stop_token stop) {
  int count = 0;
  while (!stop.stop_requested())
    coir::select(coir::on_recv(door,
                               [&](std::optional<request> r) {
                                 accepted.send(r.value());
                                 ++count;
                               }),
                 coir::on_stop(stop));
  accepted.close();  // the server answers what is in there, then ends
  return count;
}

int serve(coir::recv_chan<request> accepted) {
  int count = 0;
  for (const request& r : accepted) {
    r.reply.send("done: " + r.text);
    ++count;
  }
  return count;
}

/// What a client calls: the answer comes on the channel returned, also the one that it is too late.
coir::recv_chan<std::string> ask(coir::send_chan<request> door, std::string text, std::stop_token closing) {
  const request r{std::move(text)};
  coir::select(coir::on_send(door, r), coir::on_stop(closing, [&] { r.reply.send("too late: " + r.text); }));
  return r.reply;
}

void service() {
  std::stop_source stop;
  auto door = coir::make_chan<request>();
  auto accepted = coir::make_chan<request>(16);

  auto acceptor = coir::spawn([=, token = stop.get_token()] { return accept(door, accepted, token); });
  auto server = coir::spawn([=] { return serve(accepted); });

  std::vector<coir::recv_chan<std::string>> answers;
  for (const char* text : {"wash", "iron", "fold"}) answers.push_back(ask(door, text, stop.get_token()));
  stop.request_stop();  // in a real service: by whoever waits for SIGTERM
  answers.push_back(ask(door, "starch", stop.get_token()));

  for (const auto& answer : answers) std::cout << answer.recv().value() << '\n';
  std::cout << "accepted " << acceptor.get() << ", served " << server.get() << '\n';
}

}  // namespace

int main() {
  coir::run(service);
  std::cout << "stopped\n";
}
