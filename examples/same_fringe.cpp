// Do two trees have the same leaves, in the same order, however they are branched? Each tree is walked by a recursive
// function that yields from the depth of it; the two walks go on side by side, a leaf at a time, and end at the first
// difference. Neither tree is flattened, and no stack is kept by hand.
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include <coir/generator.hpp>

namespace {

struct tree {
  std::string leaf;
  std::unique_ptr<tree> left, right;  // null: a leaf
};

std::unique_ptr<tree> leaf(std::string s) { return std::make_unique<tree>(tree{std::move(s), nullptr, nullptr}); }
std::unique_ptr<tree> branch(std::unique_ptr<tree> l, std::unique_ptr<tree> r) {
  return std::make_unique<tree>(tree{{}, std::move(l), std::move(r)});
}

using leaves = coir::generator<const std::string&>;

void walk(const tree& t, leaves::yielder& yield) {
  if (t.left != nullptr) {
    walk(*t.left, yield);
    walk(*t.right, yield);
  } else {
    yield(t.leaf);
  }
}

leaves leaves_of(const tree& t) {
  return leaves([&t](auto& yield) { walk(t, yield); });
}

void compare(const std::string& what, const tree& a, const tree& b) {
  leaves in_a = leaves_of(a);
  leaves in_b = leaves_of(b);
  int same = 0;
  for (;; ++same) {
    const std::string* x = in_a.next();  // null: no more
    const std::string* y = in_b.next();
    if (x == nullptr && y == nullptr) {
      std::cout << what << ": the same " << same << " leaves\n";
      return;
    }
    if (x == nullptr || y == nullptr || *x != *y) {
      std::cout << what << ": after " << same << " leaves, " << (x ? *x : "nothing") << " and " << (y ? *y : "nothing")
                << '\n';
      return;  // what is left of the walks is unwound
    }
  }
}

}  // namespace

int main() {
  const auto left_heavy = branch(branch(branch(leaf("oak"), leaf("ash")), leaf("elm")), leaf("yew"));
  const auto right_heavy = branch(leaf("oak"), branch(leaf("ash"), branch(leaf("elm"), leaf("yew"))));
  const auto other = branch(branch(leaf("oak"), leaf("ash")), branch(leaf("fir"), leaf("yew")));
  const auto shorter = branch(leaf("oak"), leaf("ash"));
  compare("left and right", *left_heavy, *right_heavy);
  compare("left and other", *left_heavy, *other);
  compare("right and shorter", *right_heavy, *shorter);
}
