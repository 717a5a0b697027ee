// Package standin is a Kubernetes cluster for tests: the real API server and controller manager
// over etcd, and a stand-in for what a cluster has besides. Deployments roll out, pods are evicted
// and services are resolved as they are elsewhere, and each container of weir is the real binary
// with the pod's own arguments, variables, files, user and probes.
//
// # What is real, and what stands in
//
// kube-apiserver, kube-controller-manager and etcd are the real programs (process.go, control.go):
// admission, Pod Security, rollouts, disruption budgets and EndpointSlices are theirs. What stands
// in:
//
//   - the scheduler (schedule.go): a pod goes to the node that has the fewest pods of its
//     controller. Cordoned nodes, node selectors, the node names of a DaemonSet's pods, and claims
//     that another node uses are respected; resources are not.
//   - the storage provisioner (claims.go): a claim is bound to a directory as soon as a pod wants
//     it.
//   - the kubelet (kubelet.go, pod.go, container.go, probe.go, status.go): init containers,
//     sidecars and containers, in order, with restarts, grace periods, probes and conditions.
//   - the container runtime (root.go, volume.go, env.go, command.go, network.go): a directory for
//     the pod's root (chroot), the user and groups of the security context, a network namespace
//     with an address of its own. ConfigMaps and Secrets are files behind a link that is swapped,
//     as the kubelet's are. Memory and processors are not limited, capabilities are gone with the
//     user, and seccomp is not looked at.
//   - kube-proxy (proxy.go): a service's address accepts connections, and passes each to one of its
//     ready endpoints, drawn at random.
//   - the cluster's DNS (dns.go).
//
// Network policies are stored by the API server and enforced by nobody.
//
// # Goroutines
//
// A cluster has one goroutine for each informer and each process, and one for the DNS. A pod has
// one (pod.run), and one for each container and each probe. A service port has one that accepts,
// and two for each connection. The launcher (network.go) is the one thread from which all processes
// start.
//
// # What is left behind
//
// Nothing. Close ends every process and removes bridge and directory. The kernel kills the
// processes of a test that is killed itself, and with them go their network namespaces; what a
// bridge leaves then is removed by the next Start. One cluster runs on a machine at a time: a file
// lock says so.
package standin
