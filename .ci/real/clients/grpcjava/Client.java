import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall;
import io.grpc.ForwardingClientCallListener;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.StatusRuntimeException;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthGrpc;
import io.grpc.xds.CsdsService;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.TimeUnit;

/**
 * A gRPC client that is configured over xDS, of grpc-java. What it takes and what it prints: see
 * clients/grpcgo.
 */
public final class Client {
  private static final Metadata.Key<String> BACKEND =
      Metadata.Key.of("backend", Metadata.ASCII_STRING_MARSHALLER);

  public static void main(String[] args) throws Exception {
    endWithInput();
    serveCsds();
    ManagedChannel channel = Grpc.newChannelBuilder(args[0], InsecureChannelCredentials.create()).build();
    for (boolean first = true; ; first = false) {
      call(channel, first);
      Thread.sleep(4);
    }
  }

  /** Ends the process when its input ends. */
  static void endWithInput() {
    Thread input = new Thread(() -> {
      try {
        while (System.in.read() >= 0) {}
      } catch (java.io.IOException e) {
        System.err.println(e);
      }
      System.exit(0);
    });
    input.setDaemon(true);
    input.start();
  }

  /** Tells what this process holds. */
  static void serveCsds() throws Exception {
    Server server = io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder
        .forAddress(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 0), InsecureServerCredentials.create())
        .addService(CsdsService.newInstance())
        .build()
        .start();
    System.out.println("csds 127.0.0.1:" + server.getPort());
  }

  private static void call(Channel channel, boolean patient) {
    Header header = new Header();
    HealthGrpc.HealthBlockingStub check = HealthGrpc.newBlockingStub(channel)
        .withInterceptors(header)
        .withDeadlineAfter(60, TimeUnit.SECONDS);
    if (patient) {
      check = check.withWaitForReady();
    }
    try {
      check.check(HealthCheckRequest.getDefaultInstance());
    } catch (StatusRuntimeException e) {
      String message = String.valueOf(e.getStatus().getDescription()).replace('\n', ' ');
      System.out.println("failed " + e.getStatus().getCode() + " " + message);
      return;
    }
    System.out.println("answered " + header.backend);
  }

  /** Keeps the backend's name from the header of a call. */
  private static final class Header implements ClientInterceptor {
    volatile String backend = "";

    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
      return new ForwardingClientCall.SimpleForwardingClientCall<>(next.newCall(method, options)) {
        @Override
        public void start(Listener<A> listener, Metadata headers) {
          super.start(new ForwardingClientCallListener.SimpleForwardingClientCallListener<>(listener) {
            @Override
            public void onHeaders(Metadata got) {
              backend = got.get(BACKEND);
              super.onHeaders(got);
            }
          }, headers);
        }
      };
    }
  }
}
