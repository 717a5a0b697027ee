"""A gRPC client that is configured over xDS, of Python's grpcio, which is gRPC core. What it takes
and what it prints: see clients/grpcgo.

It knows no Protobuf: an empty message is the request of a health check, and gRPC core gives its
configuration as the bytes of a ClientStatusResponse.
"""

import os
import sys
import threading
import time
from concurrent import futures

import grpc
from grpc._cython import cygrpc


def end_with_input():
    sys.stdin.buffer.read()
    os._exit(0)


def serve_csds():
    """Tells what this process holds."""
    fetch = grpc.unary_unary_rpc_method_handler(lambda request, context: cygrpc.dump_xds_configs())
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([
        grpc.method_handlers_generic_handler(
            "envoy.service.status.v3.ClientStatusDiscoveryService", {"FetchClientStatus": fetch})
    ])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"csds 127.0.0.1:{port}", flush=True)
    return server


def call(check, patient):
    try:
        _, answered = check.with_call(b"", timeout=60, wait_for_ready=patient)
    except grpc.RpcError as error:
        print("failed", error.code().name, error.details().replace("\n", " "), flush=True)
        return
    header = [value for key, value in answered.initial_metadata() if key == "backend"]
    print("answered", ",".join(header), flush=True)


def main():
    threading.Thread(target=end_with_input, daemon=True).start()
    server = serve_csds()  # which ends when nothing refers to it
    with grpc.insecure_channel(sys.argv[1]) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        call(check, True)
        while server:
            time.sleep(0.004)
            call(check, False)


main()
