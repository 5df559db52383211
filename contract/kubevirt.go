package contract

// KubeVirtVersion is the version of KubeVirt whose API virtflow has.
const KubeVirtVersion = "v1.9.0"
