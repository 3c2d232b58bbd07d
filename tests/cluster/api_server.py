"""An API server of Kubernetes for tests: HTTPS, a token, and Leases alone."""

import http.server
import json
import os
import socket
import ssl
import subprocess
import tempfile
import threading

from tests.cluster import paramd

NAMESPACE = "research"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


def make_certificates(directory, host):
    """ca.crt, and tls.crt and tls.key of a server at that address."""
    def openssl(*arguments):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", *arguments],
            cwd=directory, check=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)

    openssl("-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=test-authority")
    openssl("-CA", "ca.crt", "-CAkey", "ca.key", "-keyout", "tls.key",
            "-out", "tls.crt", "-subj", "/CN=kube-apiserver",
            "-addext", f"subjectAltName=IP:{host}")


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection, which stays open between requests."""

    protocol_version = "HTTP/1.1"

    def setup(self):
        # In a thread of the connection, whose client may be silent.
        self.request = self.server.tls.wrap_socket(self.request,
                                                   server_side=True)
        self.server.connections.add(self.request)
        super().setup()

    def finish(self):
        self.server.connections.discard(self.request)
        super().finish()

    def handle_any(self):
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size)
        code, answer = self.server.api.answer(
            self.command, self.path, self.headers.get("Authorization", ""), body)
        text = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = handle_any

    def log_message(self, *_):
        pass


class _Server(http.server.ThreadingHTTPServer):

    def __init__(self, address, api, tls):
        self.api = api
        self.tls = tls
        self.connections = set()
        super().__init__(address, _Handler)

    def handle_error(self, request, client_address):
        pass  # Clients are killed, and so is this.


def _failure(code, message):
    return code, {"kind": "Status", "code": code, "message": message}


class ApiServer:
    """Makes, gives and replaces Leases; its `directory` is a service account's.

    What it has stays when it is killed and started again.
    """

    def __init__(self, allowed=("get", "create", "update")):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        (self.address,) = paramd.draw_addresses(1)
        host, port = self.address.split(":")
        self.environment = {"KUBERNETES_SERVICE_HOST": host,
                            "KUBERNETES_SERVICE_PORT": port}
        self.flags = ["--chief_election=kubernetes://tiny",
                      f"--chief_election_tls_dir={self.directory}"]
        self.allowed = allowed
        self.lock = threading.Lock()
        self.leases = {}
        self.versions = 0
        self.requests = 0
        self.server = None
        make_certificates(self.directory, host)
        self._write("namespace", NAMESPACE)
        self.use_token("first")
        self.start()

    def _write(self, name, text):
        """As the kubelet: who reads finds either the old or the new file."""
        path = os.path.join(self.directory, name)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(f"{path}.new", path)

    def use_token(self, token):
        """From now on it takes this one alone."""
        self._write("token", token)
        self.token = token

    def start(self):
        host, port = self.address.split(":")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(os.path.join(self.directory, "tls.crt"),
                            os.path.join(self.directory, "tls.key"))
        self.server = _Server((host, int(port)), self, tls)
        threading.Thread(target=self.server.serve_forever, args=(0.05,),
                         daemon=True).start()

    def kill(self):
        """Nobody listens any more, and all connections are cut."""
        if self.server is None:
            return
        self.server.shutdown()
        self.server.socket.close()
        for connection in list(self.server.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.server = None

    def answer(self, verb, path, authorization, body):
        """Code and body of one request."""
        if authorization != f"Bearer {self.token}":
            return _failure(401, "Unauthorized")
        verb = {"GET": "get", "POST": "create", "PUT": "update"}[verb]
        if verb not in self.allowed:
            return _failure(403, "leases.coordination.k8s.io \"tiny\" is "
                            f"forbidden: User \"pod\" cannot {verb} resource")
        folder, _, name = path.rpartition("/")
        lease = json.loads(body) if body else None
        if verb == "create":
            folder, name = path, lease["metadata"]["name"]
        if folder != LEASES:
            return _failure(404, f"there is no {folder}")
        with self.lock:
            self.requests += 1
            return self._answer(verb, name, lease)

    def _answer(self, verb, name, lease):
        old = self.leases.get(name)
        if verb == "get" and old is not None:
            return 200, old
        if verb == "create" and old is not None:
            return _failure(409, f"leases \"{name}\" already exists")
        if verb != "create" and old is None:
            return _failure(404, f"leases \"{name}\" not found")
        if verb == "update" and (old["metadata"]["resourceVersion"] !=
                                 lease["metadata"]["resourceVersion"]):
            return _failure(409, "the object has been modified")
        self.versions += 1
        lease["metadata"]["resourceVersion"] = str(self.versions)
        self.leases[name] = lease
        return (201 if verb == "create" else 200), lease
