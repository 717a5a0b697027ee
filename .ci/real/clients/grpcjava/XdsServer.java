import io.grpc.BindableService;
import io.grpc.InsecureServerCredentials;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.xds.XdsServerBuilder;

/**
 * A gRPC server that is configured over xDS, of grpc-java. What it takes and what it prints: see
 * clients/grpcgoserver.
 */
public final class XdsServer {
  public static void main(String[] args) throws Exception {
    Client.endWithInput();
    int port = Integer.parseInt(args[0].substring(args[0].lastIndexOf(':') + 1));
    BindableService health = new HealthStatusManager().getHealthService();
    io.grpc.Server server = XdsServerBuilder.forPort(port, InsecureServerCredentials.create()).addService(health).build();
    Client.serveCsds();
    server.start().awaitTermination();
  }
}
