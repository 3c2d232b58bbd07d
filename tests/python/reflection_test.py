"""A process called by a client that has none of its .proto files."""

import unittest

try:
    import grpc
    from google.protobuf import descriptor_pb2
    from google.protobuf import descriptor_pool
    from google.protobuf import message_factory
except ImportError:
    raise unittest.SkipTest("needs python3-grpcio and python3-protobuf")

# What such clients bring along.
from proto.grpc.reflection.v1alpha import reflection_pb2
from proto.grpc.reflection.v1alpha import reflection_pb2_grpc
from tests.python import live_server

DEADLINE = 60  # Seconds; nothing here takes long.


class ReflectionTest(unittest.TestCase):

    def setUp(self):
        self.process, address = live_server.start()
        self.addCleanup(live_server.end, self.process)
        self.channel = grpc.insecure_channel(
            address, options=[("grpc.enable_http_proxy", 0)])
        self.addCleanup(self.channel.close)
        self.pool = descriptor_pool.DescriptorPool()

    def ask(self, **question):
        """The answer to one question, on a stream of its own."""
        stub = reflection_pb2_grpc.ServerReflectionStub(self.channel)
        request = reflection_pb2.ServerReflectionRequest(**question)
        (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=DEADLINE)
        return answer

    def learn(self, symbol):
        """Adds the file of a symbol, and what it imports, to the pool."""
        answer = self.ask(file_containing_symbol=symbol)
        files = {}
        for described in answer.file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(described)
            files[file.name] = file

        def add(file):
            for name in file.dependency:
                if name in files:
                    add(files.pop(name))
            self.pool.Add(file)
        while files:
            add(files.pop(next(iter(files))))

    def call(self, service, method, fields):
        """Calls a method, knowing nothing but its name."""
        self.learn(service)
        described = self.pool.FindServiceByName(service).methods_by_name[method]
        factory = message_factory.MessageFactory(self.pool)
        stub = self.channel.unary_unary(
            f"/{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=factory.GetPrototype(
                described.output_type).FromString)
        request = factory.GetPrototype(described.input_type)(**fields)
        return stub(request, timeout=DEADLINE)

    def test_the_services_of_a_parameter_server_are_listed(self):
        answer = self.ask(list_services="")
        self.assertEqual(
            [service.name for service in answer.list_services_response.service],
            ["paramd.v1.Control", "paramd.v1.ParameterServer",
             "paramd.v1.Membership", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
             "grpc.reflection.v1alpha.ServerReflection"])

    def test_status_is_called_through_reflection_alone(self):
        status = self.call("paramd.v1.Control", "Status", {})
        kinds = self.pool.FindEnumTypeByName("paramd.v1.TaskType")
        self.assertEqual(status.task.type, kinds.values_by_name["PS"].number)
        self.assertNotEqual(status.incarnation, 0)

    def test_health_is_called_through_reflection_alone(self):
        health = self.call(
            "grpc.health.v1.Health", "Check", {"service": "liveness"})
        self.assertEqual(health.status, 1)
