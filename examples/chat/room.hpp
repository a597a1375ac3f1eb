// The room of a chat: who is in it, and what each of them has still to be told.
//
// Each member has a queue of lines, which a fiber of its own writes to the client. So nobody waits for a slow client;
// one whose queue is full is dropped: its connection is closed, and the fiber that reads from it leaves the room.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <coir/chan.hpp>
#include <coir/mutex.hpp>
#include <coir/net.hpp>

namespace example::chat {

/// With its end; shared by all whom it is told.
using line = std::shared_ptr<const std::string>;

class member {
 public:
  explicit member(coir::net::tcp_stream& stream) : stream_(stream) {}

  /// Queues a line for this member alone. Does not block; drops the member if its queue is full.
  void tell(const line& text) {
    if (outbox_.try_send(text) == coir::send_status::would_block) stream_.close();
  }
  void tell(std::string text) { tell(std::make_shared<const std::string>(std::move(text) + '\n')); }

  coir::net::tcp_stream& stream() const noexcept { return stream_; }
  const coir::chan<line>& outbox() const noexcept { return outbox_; }

 private:
  friend class room;

  static constexpr std::size_t most_lines = 256;

  coir::net::tcp_stream& stream_;
  coir::chan<line> outbox_ = coir::make_chan<line>(most_lines);
  std::string name_;  // under the room's lock
};

class room {
 public:
  /// Lets a member in, and tells all; false: somebody there has that name.
  bool enter(member& m, const std::string& name) {
    const std::scoped_lock lock(lock_);
    if (is_taken(name)) return false;
    m.name_ = name;
    members_.push_back(&m);
    tell_all("* " + name + " has joined");
    return true;
  }

  /// No line is told to it any more. Tells the others. Nothing if it is not in the room.
  void leave(member& m) {
    const std::scoped_lock lock(lock_);
    if (std::erase(members_, &m) > 0) tell_all("* " + m.name_ + " has left");
  }

  /// Tells all; false: somebody there has that name.
  bool rename(member& m, const std::string& name) {
    const std::scoped_lock lock(lock_);
    if (is_taken(name)) return false;
    tell_all("* " + m.name_ + " is now " + name);
    m.name_ = name;
    return true;
  }

  /// Tells all, the speaker too. All members are told the same lines in the same order.
  void say(const member& m, std::string_view text) {
    const std::scoped_lock lock(lock_);
    tell_all(m.name_ + ": " + std::string(text));
  }

  std::string names() {
    const std::scoped_lock lock(lock_);
    std::string all = "* here:";
    for (const member* m : members_) all += ' ' + m->name_;
    return all;
  }

 private:
  bool is_taken(const std::string& name) const {
    return std::any_of(members_.begin(), members_.end(), [&](const member* m) { return m->name_ == name; });
  }

  void tell_all(std::string text) {
    const line shared = std::make_shared<const std::string>(std::move(text) + '\n');
    for (member* m : members_) m->tell(shared);
  }

  coir::mutex lock_;
  std::vector<member*> members_;
};

}  // namespace example::chat
