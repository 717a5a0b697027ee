// Package chart checks what is deployed: every manifest that the Helm chart and its examples render
// is decoded strictly, every weir.yaml in them is put before weir validate, and the image is built
// by buildah and started with the pod's own arguments.
//
// It is a module of its own because of the Kubernetes types, and not part of make test because of
// the tools it needs: run it by make chart, which takes HELM and WEIR for the binaries; the image's
// tests are skipped where buildah or root are missing.
package chart
