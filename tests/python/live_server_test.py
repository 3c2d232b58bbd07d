"""A live parameter server, spoken to with generated stubs alone."""

import struct
import unittest

try:
    import grpc
    from google import protobuf
except ImportError:
    raise unittest.SkipTest("needs python3-grpcio and python3-protobuf")
del protobuf

from proto.grpc.health.v1 import health_pb2
from proto.grpc.health.v1 import health_pb2_grpc
from proto.paramd.v1 import configuration_pb2
from proto.paramd.v1 import control_pb2
from proto.paramd.v1 import data_pb2
from proto.paramd.v1 import hello_pb2
from proto.paramd.v1 import services_pb2_grpc
from proto.paramd.v1 import status_pb2
from proto.paramd.v1 import types_pb2
from tests.python import live_server

RATE = 0.5
DEADLINE = 60  # Seconds; nothing here takes long.

CHIEF = ("paramd-caller", "chief/0")
WORKER = ("paramd-caller", "worker/1")

ONE = {"term": 1, "counter": 1}  # A number, of whatever it is wanted for.


def refusal_of(error):
    """The Refusal in the details of a failed call."""
    details = dict(error.trailing_metadata())["grpc-status-details-bin"]
    return types_pb2.Refusal.FromString(details)


class LiveServerTest(unittest.TestCase):

    def setUp(self):
        self.process, address = live_server.start()
        self.addCleanup(live_server.end, self.process)
        self.channel = grpc.insecure_channel(
            address, options=[("grpc.enable_http_proxy", 0)])
        self.addCleanup(self.channel.close)
        self.health = health_pb2_grpc.HealthStub(self.channel)
        self.control = services_pb2_grpc.ControlStub(self.channel)
        self.server = services_pb2_grpc.ParameterServerStub(self.channel)

    # What the three roles say, each in one place.

    def hello(self, **fields):
        request = hello_pb2.HelloRequest(
            protocol_min=1, protocol_max=1, build="python", **fields)
        return self.control.Hello(request, timeout=DEADLINE)

    def as_task(self, caller):
        """A task of the job says which process it means."""
        process = f"{self.hello().incarnation:016x}"
        return (caller, ("paramd-incarnation", process))

    def configure(self):
        """As coordinator: gives the server one variable, a 3x2 of zeros."""
        recalled = self.server.Recall(
            control_pb2.RecallRequest(
                header=types_pb2.Header(term=1), run_id="run",
                job_digest="digest"),
            metadata=self.as_task(CHIEF), timeout=DEADLINE)
        configuration = configuration_pb2.Configuration(
            version=ONE, run_id="run", job_digest="digest", seed=1,
            consistency=configuration_pb2.Consistency(
                mode=configuration_pb2.Consistency.ASYNC),
            state=configuration_pb2.RUNNING,
            servers=[configuration_pb2.ServerMember(
                index=0, generation=ONE, incarnation=recalled.incarnation)],
            workers=[configuration_pb2.WorkerMember(
                index=1, generation=ONE, incarnation=9)],
            layout=configuration_pb2.Layout(
                variables=[types_pb2.Variable(
                    name="w", dtype=types_pb2.FLOAT32, shape=[3, 2],
                    initializer=types_pb2.Initializer(
                        kind=types_pb2.Initializer.ZEROS))],
                slices=[configuration_pb2.Slice(
                    variable=0, row_begin=0, row_end=3, server=0)]))
        configuration.optimizer.sgd.SetInParent()
        configuration.optimizer.learning_rate = RATE
        request = control_pb2.ConfigureRequest(
            header=types_pb2.Header(term=1), configuration=configuration)
        while True:
            try:
                reply = self.server.Configure(
                    request, metadata=self.as_task(CHIEF), timeout=DEADLINE)
            except grpc.RpcError as error:
                # Until the slices are filled.
                if refusal_of(error).reason != types_pb2.Refusal.NOT_READY:
                    raise
                continue
            if reply.restored:
                return recalled.incarnation

    def pull(self, known=None):
        return self.server.Pull(
            data_pb2.PullRequest(
                blocks=[data_pb2.PullBlock(slice=0, block=0, known=known)],
                encoding=types_pb2.FP32),
            timeout=DEADLINE)

    def push(self, gradient, sequence, caller=WORKER):
        request = data_pb2.PushRequest(
            header=types_pb2.Header(
                term=1, configuration=ONE, worker=1, generation=ONE,
                sequence=sequence, server_generation=ONE),
            blocks=[data_pb2.PushBlock(
                slice=0, block=0, elements=len(gradient))],
            encoding=types_pb2.FP32, clock=sequence,
            payload=struct.pack(f"<{len(gradient)}f", *gradient))
        return self.server.Push(
            request, metadata=self.as_task(caller), timeout=DEADLINE)

    def weights(self):
        return list(struct.unpack("<6f", self.pull().payload))

    def refused(self, call, *arguments, **keywords):
        with self.assertRaises(grpc.RpcError) as raised:
            call(*arguments, **keywords)
        return raised.exception

    # What holds.

    def test_hello_says_who_is_there_and_refuses_another_job(self):
        reply = self.hello()
        self.assertEqual(reply.protocol, 1)
        self.assertEqual(reply.task, types_pb2.Task(type=types_pb2.PS, index=0))
        self.assertNotEqual(reply.incarnation, 0)
        error = self.refused(self.hello, job_digest="another")
        self.assertEqual(refusal_of(error).reason, types_pb2.Refusal.OTHER_JOB)
        self.assertEqual(refusal_of(error).entity, "job_digest")
        self.assertIn("'another'", error.details())

    def test_a_task_that_does_not_say_which_process_it_means_is_refused(self):
        self.configure()
        for said, reason in (((), types_pb2.Refusal.INVALID),
                             ((("paramd-incarnation", "0" * 15 + "7"),),
                              types_pb2.Refusal.NOT_READY)):
            error = self.refused(
                self.server.Push, data_pb2.PushRequest(),
                metadata=(WORKER, *said), timeout=DEADLINE)
            self.assertEqual(refusal_of(error).reason, reason)
            self.assertEqual(refusal_of(error).entity, "paramd-incarnation")

    def test_a_push_moves_the_weights_once_however_often_it_comes(self):
        self.hello()
        self.configure()
        self.assertEqual(self.weights(), [0.0] * 6)
        gradient = [1.0, -2.0, 4.0, 0.5, 0.0, 8.0]
        moved = [-RATE * g for g in gradient]
        pushed = self.push(gradient, sequence=1)
        self.assertEqual(pushed.blocks[0].result, data_pb2.PushedBlock.APPLIED)
        self.assertEqual(self.weights(), moved)
        again = self.push(gradient, sequence=1)
        self.assertEqual(again.blocks[0].result,
                         data_pb2.PushedBlock.ALREADY_APPLIED)
        self.assertEqual(again.blocks[0].version, pushed.blocks[0].version)
        self.assertEqual(self.weights(), moved)
        self.push(gradient, sequence=2)
        self.assertEqual(self.weights(), [2 * m for m in moved])

    def test_a_block_that_the_reader_has_does_not_travel(self):
        self.configure()
        first = self.pull()
        again = self.pull(known=first.blocks[0].version)
        self.assertEqual(again.blocks[0].elements, 0)
        self.assertEqual(again.payload, b"")

    def test_a_gradient_of_the_wrong_length_changes_nothing(self):
        self.configure()
        error = self.refused(self.push, [1.0], sequence=1)
        self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(refusal_of(error).reason, types_pb2.Refusal.INVALID)
        self.assertEqual(self.weights(), [0.0] * 6)

    def test_who_says_nothing_about_himself_may_read_and_not_write(self):
        self.configure()
        error = self.refused(self.push, [1.0] * 6, sequence=1,
                             caller=("paramd-caller", ""))
        self.assertEqual(error.code(), grpc.StatusCode.PERMISSION_DENIED)
        self.assertEqual(refusal_of(error).reason,
                         types_pb2.Refusal.NOT_ALLOWED)
        self.assertEqual(self.weights(), [0.0] * 6)

    def test_status_counts_what_was_done(self):
        incarnation = self.configure()
        self.push([1.0] * 6, sequence=1)
        self.push([1.0] * 6, sequence=1)
        self.pull()
        status = self.control.Status(
            status_pb2.StatusRequest(), timeout=DEADLINE)
        self.assertEqual(status.task.type, types_pb2.PS)
        self.assertEqual(status.incarnation, incarnation)
        self.assertEqual(
            status.configuration, types_pb2.ConfigurationVersion(**ONE))
        self.assertTrue(status.server.restored)
        self.assertEqual(status.server.pulls, 1)
        self.assertEqual(status.server.blocks_applied, 1)
        self.assertEqual(status.server.blocks_repeated, 1)

    def test_health_is_checked_by_anybody_and_before_hello(self):
        def check(service):
            return self.health.Check(
                health_pb2.HealthCheckRequest(service=service),
                timeout=DEADLINE).status
        for service in ("", "readiness", "liveness"):
            self.assertEqual(check(service),
                             health_pb2.HealthCheckResponse.SERVING)
        self.assertEqual(check("restored"),
                         health_pb2.HealthCheckResponse.NOT_SERVING)
        error = self.refused(check, "nothing")
        self.assertEqual(error.code(), grpc.StatusCode.NOT_FOUND)
        # As a probe without stubs does it: no service, field 1 is SERVING.
        probe = self.channel.unary_unary("/grpc.health.v1.Health/Check")
        self.assertEqual(probe(b"", timeout=DEADLINE), b"\x08\x01")

    def test_a_watcher_hears_that_the_shard_is_restored(self):
        watch = self.health.Watch(
            health_pb2.HealthCheckRequest(service="restored"),
            timeout=DEADLINE)
        self.assertEqual(next(watch).status,
                         health_pb2.HealthCheckResponse.NOT_SERVING)
        self.configure()
        self.assertEqual(next(watch).status,
                         health_pb2.HealthCheckResponse.SERVING)
        watch.cancel()

    def test_the_server_ends_with_the_job(self):
        self.configure()
        request = control_pb2.FinishRequest(
            header=types_pb2.Header(term=1),
            finished=configuration_pb2.Finished(exit_code=0, reason="done"))
        self.server.Finish(
            request, metadata=self.as_task(CHIEF), timeout=DEADLINE)
        error = self.refused(self.push, [1.0] * 6, sequence=1)
        self.assertEqual(refusal_of(error).reason,
                         types_pb2.Refusal.JOB_FINISHED)
        request.everybody_knows = True
        self.server.Finish(
            request, metadata=self.as_task(CHIEF), timeout=DEADLINE)
        self.assertEqual(self.process.wait(), 0)
