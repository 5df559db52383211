package parts

import (
	"fmt"
	"strings"
	"time"

	"github.com/virtflow/virtflow/contract"
)

// Versions of what is built; those of nested modules stand in their go.mod.
const (
	kubernetesVersion   = "v1.36.3"
	containerdVersion   = "v2.4.2"
	golangciLintVersion = "v2.15.0"
	govulncheckModule   = "golang.org/x/vuln/cmd/govulncheck@v1.9.0"
	workflowcheckModule = "go.temporal.io/sdk/contrib/tools/workflowcheck@v0.6.0"

	// CDIVersion is the one whose source is whole on the module proxy; see also deploy/dev/parts/cdi.
	CDIVersion = "v1.65.0"

	protocGenGoModule     = "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11"
	protocGenGoGRPCModule = "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.0"
)

// kubernetesVersionFlags set the programs' version, and their user agents, as Kubernetes's own build does.
func kubernetesVersionFlags() string {
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, v := range []string{"gitVersion=" + kubernetesVersion, "gitMajor=1", "gitMinor=36", "gitTreeState=clean",
			"gitCommit=source"} {
			flags = append(flags, "-X "+pkg+"."+v)
		}
	}
	return strings.Join(flags, " ")
}

// Part is one thing to build.
type Part struct {
	// Name is the part's name in the cache and on the command line.
	Name string
	// What is a short description, with the reason for its build time.
	What string
	// Cold is how long it takes on two cores with nothing compiled before.
	Cold time.Duration
	// Dir is the nested module, relative to the checkout; empty for a command that is installed from its own module.
	Dir string
	// Packages are the commands to build: import paths, or paths relative to Dir; with a version when Dir is empty.
	Packages []string
	// Output is the name of the program, where the package does not say it.
	Output string
	// Tags are build tags.
	Tags string
	// LDFlags are added to those that leave out debugging information.
	LDFlags string
	// Cgo permits the compilation of C code.
	Cgo bool
	// Test builds the packages' tests instead of commands: programs NAME.test.
	Test bool
}

// Kubernetes is every Kubernetes program, etcd, CoreDNS and pause.
func Kubernetes() Part {
	return Part{
		Name: "kubernetes", Dir: "deploy/dev/parts/kubernetes",
		What: "Kubernetes " + kubernetesVersion + ", etcd and CoreDNS from source: some 2,500 packages",
		Cold: 7 * time.Minute,
		// One after the other in one call would build the same; so does the compiler's own cache.
		Packages: []string{"./kube", "./etcd", "./coredns", "./pause"},
		LDFlags:  kubernetesVersionFlags(),
	}
}

// Containerd is containerd, its shim and ctr.
func Containerd() Part {
	const module = "github.com/containerd/containerd/v2"
	return Part{
		Name: "containerd", Dir: "deploy/dev/parts/containerd",
		What: "containerd " + containerdVersion +
			" from source (Debian's cannot mount image volumes): some 900 packages",
		Cold:     80 * time.Second,
		Packages: []string{module + "/cmd/containerd", module + "/cmd/containerd-shim-runc-v2", module + "/cmd/ctr"},
		Tags:     "no_btrfs,no_devmapper,no_zfs",
		LDFlags:  "-X " + module + "/version.Version=" + containerdVersion,
	}
}

// Storage is the CSI driver and Kubernetes's controllers for CSI drivers.
func Storage() Part {
	const csi = "github.com/kubernetes-csi/external-"
	return Part{
		Name: "storage", Dir: "deploy/dev/parts/storage",
		What: "a CSI driver, and Kubernetes's controllers that make, grow and copy volumes, from source",
		Cold: 2 * time.Minute,
		Packages: []string{"./driver", csi + "provisioner/v6/cmd/csi-provisioner", csi + "resizer/v2/cmd/csi-resizer",
			csi + "snapshotter/v8/cmd/csi-snapshotter", csi + "snapshotter/v8/cmd/snapshot-controller"},
	}
}

// Multus gives pods further networks.
func Multus() Part {
	return Part{
		Name: "multus", Dir: "deploy/dev/parts/multus",
		What:     "Multus from source",
		Cold:     time.Minute,
		Packages: []string{"gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"},
	}
}

// CDI fills claims with disks of virtual machines. The manifest generator is CDI's own, too: it writes what is applied.
func CDI() Part {
	const module = "kubevirt.io/containerized-data-importer"
	part := Part{
		Name: "cdi", Dir: "deploy/dev/parts/cdi",
		What: "CDI " + CDIVersion + " from source: some 1,500 packages",
		Cold: 5 * time.Minute,
		Tags: "containers_image_openpgp", // without C
		LDFlags: "-X " + module + "/pkg/version.gitVersion=" + CDIVersion +
			" -X " + module + "/pkg/version.gitTreeState=clean",
		Packages: []string{module + "/tools/manifest-generator"},
	}
	for _, name := range []string{"operator", "apiserver", "controller", "uploadproxy", "importer", "uploadserver"} {
		part.Packages = append(part.Packages, module+"/cmd/cdi-"+name)
	}
	return part
}

// kubeVirtModule is KubeVirt's own module, and kubeVirtDir the module that pins its dependencies.
const (
	kubeVirtModule = "kubevirt.io/kubevirt"
	kubeVirtDir    = "deploy/dev/parts/kubevirt"
)

// KubeVirt is KubeVirt's own operator, virt-api and virt-controller, and a program that writes what is applied.
func KubeVirt() Part {
	return Part{
		Name: "kubevirt", Dir: kubeVirtDir,
		What:    "KubeVirt's controllers " + contract.KubeVirtVersion + " from source: some 1,300 packages",
		Cold:    4 * time.Minute,
		LDFlags: kubeVirtVersionFlags(),
		Packages: []string{"./manifest", kubeVirtModule + "/cmd/virt-operator", kubeVirtModule + "/cmd/virt-api",
			kubeVirtModule + "/cmd/virt-controller"},
	}
}

// Virtctl is KubeVirt's command line.
func Virtctl() Part {
	return Part{
		Name: "virtctl", Dir: kubeVirtDir,
		What:     "KubeVirt's virtctl " + contract.KubeVirtVersion + " from source: some 1,000 packages",
		Cold:     3 * time.Minute,
		Packages: []string{kubeVirtModule + "/cmd/virtctl"},
		LDFlags:  kubeVirtVersionFlags(),
	}
}

// KubeVirtTests is the program of KubeVirt's functional tests, which Ginkgo runs.
func KubeVirtTests() Part {
	return Part{
		Name: "kubevirt-tests", Dir: kubeVirtDir,
		What: "KubeVirt's functional tests " + contract.KubeVirtVersion + " from source: some 1,550 packages",
		Cold: 4 * time.Minute, Test: true,
		Packages: []string{kubeVirtModule + "/tests"},
		LDFlags:  kubeVirtVersionFlags(),
	}
}

// LoadGenerator is KubeVirt's load generator.
func LoadGenerator() Part {
	return Part{
		Name: "perfscale-load-generator", Dir: kubeVirtDir,
		What:     "KubeVirt's load generator " + contract.KubeVirtVersion + " from source: some 900 packages",
		Cold:     3 * time.Minute,
		Packages: []string{kubeVirtModule + "/tools/perfscale-load-generator"},
		LDFlags:  kubeVirtVersionFlags(),
	}
}

// Ginkgo runs the specs of a test program in several processes. It has the version that KubeVirt's tests have.
func Ginkgo() Part {
	return Part{
		Name: "ginkgo", Dir: kubeVirtDir,
		What:     "Ginkgo's command line from source",
		Cold:     20 * time.Second,
		Packages: []string{"github.com/onsi/ginkgo/v2/ginkgo"},
	}
}

// kubeVirtVersionFlags set the version of KubeVirt's programs.
func kubeVirtVersionFlags() string {
	const version = "kubevirt.io/client-go/version"
	return "-X " + version + ".gitVersion=" + contract.KubeVirtVersion + " -X " + version + ".gitTreeState=clean"
}

// Temporal is Temporal's server with its web interface.
func Temporal() Part {
	return Part{
		Name: "temporal", Dir: "deploy/dev/parts/temporal",
		What:     "Temporal's server and its web interface from source",
		Cold:     5 * time.Minute,
		Packages: []string{"."}, Output: "virtflow-temporal",
		// SQLite with full-text search. Static, as programs without C are: the cache outlives a machine's libc.
		Cgo: true, Tags: "sqlite_fts5,sqlite_omit_load_extension,netgo,osusergo",
		LDFlags: "-linkmode external -extldflags -static",
	}
}

// Tctl is Temporal's older command line.
func Tctl() Part {
	return Part{
		Name: "tctl", Dir: "deploy/dev/parts/tctl",
		What:     "tctl from source",
		Cold:     150 * time.Second,
		Packages: []string{"github.com/temporalio/tctl/cmd/tctl"},
	}
}

// TemporalCLI is the command "temporal".
func TemporalCLI() Part {
	return Part{
		Name: "temporal-cli", Dir: "deploy/dev/parts/temporal-cli",
		What:     "the temporal command from source (it has a server within)",
		Cold:     4 * time.Minute,
		Packages: []string{"github.com/temporalio/cli/cmd/temporal"},
	}
}

// Descheduler evicts pods from nodes that they should leave.
func Descheduler() Part {
	return Part{
		Name: "descheduler", Dir: "deploy/dev/parts/descheduler",
		What:     "the descheduler from source: some 1,100 packages",
		Cold:     2 * time.Minute,
		Packages: []string{"sigs.k8s.io/descheduler/cmd/descheduler"},
	}
}

// ClusterAPI makes clusters whose machines are VMs: the managers of Cluster API and of its provider for KubeVirt.
func ClusterAPI() Part {
	const module = "sigs.k8s.io/cluster-api"
	return Part{
		Name: "cluster-api", Dir: "deploy/dev/parts/clusterapi",
		What:     "Cluster API and its provider for KubeVirt from source: some 1,000 packages",
		Cold:     4 * time.Minute,
		Packages: []string{module, module + "-provider-kubevirt"},
	}
}

// GolangciLint is the linter.
func GolangciLint() Part {
	return Part{
		Name: "golangci-lint", What: "golangci-lint " + golangciLintVersion + " from source",
		Cold:     time.Minute,
		Packages: []string{"github.com/golangci/golangci-lint/v2/cmd/golangci-lint@" + golangciLintVersion},
	}
}

// Workflowcheck finds what would make a workflow nondeterministic.
func Workflowcheck() Part {
	return Part{
		Name: "workflowcheck", What: "workflowcheck from source",
		Cold: 20 * time.Second, Packages: []string{workflowcheckModule},
	}
}

// Govulncheck finds known vulnerabilities in what programs call.
func Govulncheck() Part {
	return Part{
		Name: "govulncheck", What: "govulncheck from source",
		Cold: 20 * time.Second, Packages: []string{govulncheckModule},
	}
}

// ProtocGenGo writes the messages of the launcher's service.
func ProtocGenGo() Part {
	return Part{
		Name: "protoc-gen-go", What: "protoc's plugin for Go from source",
		Cold: 5 * time.Second, Packages: []string{protocGenGoModule},
	}
}

// ProtocGenGoGRPC writes the client and server of the launcher's service.
func ProtocGenGoGRPC() Part {
	return Part{
		Name: "protoc-gen-go-grpc", What: "protoc's plugin for gRPC from source",
		Cold: 5 * time.Second, Packages: []string{protocGenGoGRPCModule},
	}
}

// All is every part.
func All() []Part {
	return []Part{Kubernetes(), Containerd(), Storage(), Multus(), CDI(), KubeVirt(), Virtctl(), KubeVirtTests(),
		LoadGenerator(), Ginkgo(), Temporal(), Tctl(), TemporalCLI(), Descheduler(), ClusterAPI(), GolangciLint(),
		Workflowcheck(), Govulncheck(), ProtocGenGo(), ProtocGenGoGRPC()}
}

// Named finds a part.
func Named(name string) (Part, error) {
	for _, p := range All() {
		if p.Name == name {
			return p, nil
		}
	}
	return Part{}, fmt.Errorf("there is no part %q to build", name)
}
