"""What a kubelet's gRPC probe does."""

import grpc

_SERVING = b"\x08\x01"


def serves(address, service):
    """Whether grpc.health.v1.Health at "host:port" answers SERVING."""
    request = bytes([10, len(service)]) + service.encode()
    try:
        with grpc.insecure_channel(address) as channel:
            return channel.unary_unary("/grpc.health.v1.Health/Check")(
                request, timeout=5) == _SERVING
    except grpc.RpcError:
        return False
