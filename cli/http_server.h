#ifndef PARAMD_CLI_HTTP_SERVER_H_
#define PARAMD_CLI_HTTP_SERVER_H_

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"

#include "base/time.h"

namespace paramd {

// As much of an HTTP/1.1 server as a scrape needs: answers GET and HEAD, one
// request to a connection, on one thread of its own.
//
// Bounds: 32 connections, further ones wait in the kernel; 8 KiB of a request;
// `patience` for a connection. What exceeds the latter two is closed.
//
// The thread is ours, with the usual stack: the server that prometheus-cpp
// brings has threads of 100 KB, which are too small beside libraries with much
// thread-local storage, and takes 2 s to end.
class HttpServer {
 public:
  struct Response {
    int code = 200;
    std::string content_type;
    std::string body;
  };
  // Called on the server's thread with the path, without what follows '?'.
  // While it runs other connections wait.
  using Handler = std::function<Response(const std::string& path)>;

  // Answers whoever connects to one of `listeners`, listening sockets that do
  // not block, at least one; closes them at its end.
  HttpServer(std::vector<int> listeners, Handler handler,
             absl::Duration patience = absl::Seconds(5));
  // Closes all connections and joins the thread.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Of the first of them.
  int port() const { return port_; }

 private:
  struct Connection {
    int fd;
    Time deadline;
    std::string request = {};
    std::string answer = {};  // Empty until the request is whole.
    size_t sent = 0;
  };

  void Loop();
  void Accept(int listener);
  // Each false: the connection is over.
  bool Read(Connection* connection);
  static bool Write(Connection* connection);
  std::string AnswerTo(const std::string& request) const;

  const std::vector<int> listeners_;
  const Handler handler_;
  const absl::Duration patience_;
  int port_ = 0;
  const int stop_;  // An eventfd: readable when the thread shall end.
  std::vector<Connection> connections_;
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_CLI_HTTP_SERVER_H_
