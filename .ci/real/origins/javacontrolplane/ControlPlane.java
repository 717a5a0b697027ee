import io.envoyproxy.controlplane.cache.NodeGroup;
import io.envoyproxy.controlplane.cache.v3.SimpleCache;
import io.envoyproxy.controlplane.cache.v3.Snapshot;
import io.envoyproxy.controlplane.server.DiscoveryServerCallbacks;
import io.envoyproxy.controlplane.server.V3DiscoveryServer;
import io.envoyproxy.envoy.config.cluster.v3.Cluster;
import io.envoyproxy.envoy.config.core.v3.Node;
import io.envoyproxy.envoy.config.endpoint.v3.ClusterLoadAssignment;
import io.envoyproxy.envoy.config.listener.v3.Listener;
import io.envoyproxy.envoy.config.route.v3.RouteConfiguration;
import io.envoyproxy.envoy.service.discovery.v3.DeltaDiscoveryRequest;
import io.envoyproxy.envoy.service.discovery.v3.DiscoveryRequest;
import io.envoyproxy.envoy.service.discovery.v3.DiscoveryResponse;
import com.google.protobuf.Any;
import com.google.protobuf.Message;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A control plane made of java-control-plane, with one snapshot for all nodes. Each line that it reads is
 * all it has from now on: a DiscoveryResponse of all types, in base 64; or, if it has a control plane's
 * identifier, all it has for nodes of that id, which is how to have other snapshots. It serves on the port that is
 * its argument, from the first of them on, and prints a line for what happens:
 *
 * <pre>
 * published   what it read is there; it serves
 * asked       it was sent a request
 * </pre>
 */
public final class ControlPlane {
  public static void main(String[] args) throws Exception {
    Set<String> own = ConcurrentHashMap.newKeySet(); // ids of nodes with a snapshot of their own
    SimpleCache<String> cache = new SimpleCache<>(new NodeGroup<String>() {
      @Override
      public String hash(Node node) {
        return own.contains(node.getId()) ? node.getId() : "all";
      }
    });
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    boolean serves = false;
    for (String line; (line = input.readLine()) != null; ) {
      DiscoveryResponse all = DiscoveryResponse.parseFrom(Base64.getDecoder().decode(line));
      String id = all.getControlPlane().getIdentifier();
      if (id.isEmpty()) {
        id = "all";
      } else {
        own.add(id);
      }
      cache.setSnapshot(id, snapshot(all));
      if (!serves) {
        serve(cache, Integer.parseInt(args[0]));
        serves = true;
      }
      System.out.println("published");
    }
    System.exit(0);
  }

  private static Snapshot snapshot(DiscoveryResponse all) throws Exception {
    return Snapshot.create(of(all, Cluster.class), of(all, ClusterLoadAssignment.class), of(all, Listener.class),
        of(all, RouteConfiguration.class), List.of(), all.getVersionInfo());
  }

  private static <M extends Message> List<M> of(DiscoveryResponse all, Class<M> type) throws Exception {
    List<M> list = new ArrayList<>();
    for (Any resource : all.getResourcesList()) {
      if (resource.is(type)) {
        list.add(resource.unpack(type));
      }
    }
    return list;
  }

  private static void serve(SimpleCache<String> cache, int port) throws Exception {
    V3DiscoveryServer server = new V3DiscoveryServer(new DiscoveryServerCallbacks() {
      @Override
      public void onV3StreamRequest(long stream, DiscoveryRequest request) {
        System.out.println("asked");
      }

      @Override
      public void onV3StreamDeltaRequest(long stream, DeltaDiscoveryRequest request) {
        System.out.println("asked");
      }
    }, cache);
    NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", port))
        .addService(server.getAggregatedDiscoveryServiceImpl())
        .build()
        .start();
  }
}
