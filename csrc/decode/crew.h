#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>

namespace endcap {

// Threads that share the work on one image: its owner, and helpers that come and go. What the owner
// gets is the same without helpers.
class Crew {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // Work that consists of jobs, which threads do in parallel.
  class Work {
   public:
    virtual ~Work() = default;
    // Does a job, and returns whether there was one that could begin. Called with the lock held,
    // which it releases meanwhile; must not throw. is_owner: on the owner's thread.
    virtual bool DoJob(Lock& lock, bool is_owner) noexcept = 0;
  };

  static constexpr int kMaxHelpers = 31;
  // helpers: how many there may be. segment_bytes: of a file, in a job; 0: by the file's size.
  explicit Crew(int helpers, size_t segment_bytes = 0) noexcept
      : helpers_(helpers), segment_bytes_(segment_bytes) {}
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int helpers() const noexcept { return helpers_; }
  size_t segment_bytes() const noexcept { return segment_bytes_; }
  int jobs_of_helpers() const noexcept { return jobs_of_helpers_; }  // after End

  // The functions below are for the owner.

  // Shares `work` until End.
  void Begin(Work& work);
  // Does jobs, and waits where there is none, until `is_done`, which is called with the lock held.
  void WorkUntil(const std::function<bool()>& is_done);
  // Lets the helpers look for jobs again; with the lock held.
  void Notify() noexcept { changed_.notify_all(); }
  // Returns when no helper is at a job, and none will begin one. Also where nothing was begun.
  void End() noexcept;

  // For a helper: does jobs until End, or until is_to_leave, which is called before each job and
  // must not throw, returns true.
  void Help(const std::function<bool()>& is_to_leave = [] { return false; }) noexcept;

 private:
  bool DoJob(Lock& lock, bool is_owner) noexcept;

  const int helpers_;
  const size_t segment_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Work* work_ = nullptr;
  int busy_helpers_ = 0;
  int jobs_of_helpers_ = 0;
  bool ended_ = false;
};

}  // namespace endcap
