// Package chart checks what is deployed: every manifest that the Helm chart and its examples render
// is decoded strictly, those of operators with the operators' own types; every pod is put before Pod
// Security, every weir.yaml before weir validate, alerts and panels before promtool; and the image is
// built by buildah and started with the pod's own arguments.
//
// The chart's values.schema.json is made of values.schema.yaml and weir config schema, and its
// README.md of values.yaml: after a change of one of them,
//
//	go test -run 'TestSchema|TestReadme' -update .
//
// It is a module of its own because of the Kubernetes types, and not part of make test because of
// the tools it needs: run it by make chart, which takes HELM and WEIR for the binaries; tests are
// skipped where buildah and root, systemd-analyze or promtool are missing.
package chart
