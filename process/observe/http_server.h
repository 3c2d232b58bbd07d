#ifndef PARAMD_PROCESS_OBSERVE_HTTP_SERVER_H_
#define PARAMD_PROCESS_OBSERVE_HTTP_SERVER_H_

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"

#include "base/time.h"
#include "process/observe/http_answer.h"

namespace paramd {

// As much of an HTTP/1.1 server as a scrape needs: answers GET and HEAD, one
// request to a connection, on one thread of its own.
//
// Bounds: 32 connections; 8 KiB of a request; `patience` for a connection. What
// exceeds the latter two is closed. A further connection takes the place of the
// one that has been open for longest; if that has begun a request, it is told.
// So whoever sends a request at once and takes the answer is served, however
// many do neither. All of these are counted.
//
// The thread is ours, with the usual stack: the server that prometheus-cpp
// brings has threads of 100 KB, which are too small beside libraries with much
// thread-local storage, and takes 2 s to end.
class HttpServer {
 public:
  using Request = HttpRequest;
  using Response = HttpResponse;
  // Called on the server's thread. While it runs other connections wait.
  using Handler = HttpHandler;
  using HostCheck = HttpHostCheck;

  // Answers whoever connects to one of `listeners`, listening sockets that do
  // not block, at least one; closes them at its end. `is_ours` null: any host.
  HttpServer(std::vector<int> listeners, Handler handler,
             HostCheck is_ours = nullptr,
             absl::Duration patience = absl::Seconds(5));
  // Closes all connections and joins the thread.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Of the first of them.
  int port() const { return port_; }
  // Any thread: connections that had to give way to others, and those that were
  // closed for the size or the time of what they sent or took. One that was
  // silent all the time is not counted: browsers open some for later.
  uint64_t over_limit() const { return over_limit_; }
  uint64_t unfinished() const { return unfinished_; }
  // Any thread: how often somebody had to wait for want of a descriptor.
  uint64_t without_descriptor() const { return without_descriptor_; }

 private:
  struct Connection {
    int fd;
    Time deadline;
    std::string request = {};
    std::string answer = {};  // Empty until the request is whole.
    size_t sent = 0;
  };

  void Loop();
  // False if the process has no descriptor left for whoever waits.
  bool Accept(int listener);
  // Closes the connection that has been open for longest. REQUIRES: there is
  // one.
  void MakeRoom();
  // Reads and writes what can be, by what poll said of each connection.
  void Serve(const pollfd* polled);
  // Each false: the connection is over.
  bool Read(Connection* connection);
  static bool Write(Connection* connection);

  const std::vector<int> listeners_;
  const Handler handler_;
  const HostCheck is_ours_;  // May be null.
  const absl::Duration patience_;
  int port_ = 0;
  const int stop_;  // An eventfd: readable when the thread shall end.
  std::vector<Connection> connections_;  // The one that came first is first.
  Time accept_again_;                    // Not before: there was no descriptor.
  std::atomic<uint64_t> over_limit_{0};
  std::atomic<uint64_t> unfinished_{0};
  std::atomic<uint64_t> without_descriptor_{0};
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_HTTP_SERVER_H_
