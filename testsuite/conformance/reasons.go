package main

import (
	"regexp"
	"slices"
	"strings"
)

// reasonKind is a kind of reasons for which specs do not pass.
type reasonKind struct {
	name, meaning string
	// runs reports whether such specs run without being asked for, because they judge virtflow.
	runs bool
}

// Kinds of reasons.
var (
	bug        = reasonKind{"bug", "virtflow is wrong", true}
	difference = reasonKind{"difference", "virtflow does it in another way on purpose: [Differences](differences.md), " +
		"[Migration](migration.md#what-differs-from-kubevirt)", true}
	feature = reasonKind{"feature", "[not supported yet](unsupported.md), or not on purpose. virtflow refuses it, or " +
		"does not have the kind", false}
	internals = reasonKind{"internals", "about KubeVirt's own operator, processes, images and metrics", false}
	hardware  = reasonKind{"hardware", "devices, processors and settings of hosts that the local cluster's nodes lack",
		false}
	kvm         = reasonKind{"KVM", "guests on the local cluster are emulated", false}
	cdi         = reasonKind{"CDI", "CDI fills the disks, and the local cluster has it only on request", false}
	size        = reasonKind{"size", "more nodes, processors, memory or time than the local cluster has", false}
	environment = reasonKind{"environment", "something else that the local cluster lacks, such as Istio or IPv6", false}
)

// kinds returns all kinds in the order of the page.
func kinds() []reasonKind {
	return []reasonKind{bug, difference, feature, internals, hardware, kvm, cdi, size, environment}
}

// reason explains why the specs whose line matches do not pass.
type reason struct {
	kind  reasonKind
	why   string
	match *regexp.Regexp
}

// because returns a reason. Expressions are alternatives.
func because(kind reasonKind, why string, expressions ...string) reason {
	return reason{kind, why, regexp.MustCompile(strings.Join(expressions, "|"))}
}

// label returns an expression for specs with one of some labels.
func label(names string) string { return `^\S+ \{([^}]*,)?(` + names + `)[,}]` }

// explained is a spec with the first reason that matches it.
type explained struct {
	spec
	// index is the reason's; -1: none matches.
	index int
}

// explainAll finds the reasons of specs.
func explainAll(specs []spec) []explained {
	var all []explained
	for _, s := range specs {
		line := s.line()
		index := slices.IndexFunc(reasons, func(r reason) bool { return r.match.MatchString(line) })
		all = append(all, explained{s, index})
	}
	return all
}

// isLeftOut reports whether a spec runs only if it is asked for, and does not count: for some the kinds that they need
// have empty definitions, with which they may pass.
func (e explained) isLeftOut() bool { return e.index >= 0 && !reasons[e.index].kind.runs }

// text returns why the spec does not pass: the reason that is known, or the beginning of the spec's own text.
func (e explained) text() string {
	switch {
	case e.index >= 0:
		return reasons[e.index].kind.name + ": " + reasons[e.index].why
	case e.Message != "":
		return code(e.Message)
	}
	return ""
}

// reasons has all reasons. The first that matches counts.
var reasons = []reason{
	because(environment, "Istio", label("Istio")),
	because(environment, "OpenShift", label("OpenShift")),
	because(environment, "IPv6 on the pod network", label("IPv6"), `^network/dual_stack_cluster\.go`, `^network/.*IPv6`),
	because(environment, "the Internet", label("RequiresOutsideConnectivity")),
	because(environment, "Windows", label("Windows|Sysprep")),

	because(hardware, "network devices with SR-IOV", label("SRIOV")),
	because(hardware, "GPUs", label("VGPU|DRA-GPU")),
	because(hardware, "SEV or Secure Execution", label("SEV|secure-execution")),
	because(hardware, "another architecture", label("requires-arm64|requires-s390x|requires-cross-arch-emulation")),
	because(hardware, "hugepages", label("requireHugepages2Mi|requireHugepages1Gi"), `Huge Pages|hugepages`),
	because(hardware, "the kubelet's CPU manager", label("requires-(two-worker-)?nodes?-with-cpu-manager")),
	because(hardware, "a TSC whose frequency does not change", label("TscFrequencies|Invtsc")),
	because(hardware, "nested virtualization", label("VMX")),
	because(hardware, "PCI or USB devices to assign", label("USB"), `^vmi_hostdev_test\.go`),
	because(hardware, "SELinux", `(?i)selinux`),
	because(hardware, "KSM", label("KSM-required")),
	because(hardware, "SCSI reservations", label("RequiresPersistentReservation")),

	because(kvm, "KVM", `Hyper-V enlightenments`, `Check KVM CPUID`, `obsolete-?[Cc]pu`, `obsolete host-model`),

	because(size, "three nodes, or nodes for nothing else",
		label("requires-three-schedulable-nodes|requires-dedicated-worker-nodes")),
	because(size, "more than one replica of each process", label("multi-replica")),
	because(size, "many machines at a time", label("sig-performance|large-storage-pool-required"),
		`^stability_test\.go`),
	because(size, "more than two processors",
		`^network/multiqueue\.go`, `should allow (int|float) type`, `with 3 CPU cores`, `CPU cores .* under guest OS`),

	because(internals, "the operator", label("sig-operator|Upgrade")),
	because(internals, "metrics and alerts by KubeVirt's names", label("sig-monitoring"), `^infrastructure/prometheus\.go`,
		`Migration Metrics`),
	because(internals, "KubeVirt's own processes", label("single-replica"), `^virt_control_plane_test\.go`,
		`^virt-handler_test\.go`, `^infrastructure/(certificates|cluster-profiler|k8s-client-changes|security|`+
			`taints-and-tolerations|tls-configuration|virt-controller-leader-election|virt-handler)\.go`,
		`^validatingadmissionpolicy/`, `virt-handler (is deleted|crashes|heartbeat)`, `^compute/domain_resilience\.go`,
		`PDBs created by an old virt-controller`),
	because(internals, "launchers that run as root", `migration to (non)?root`),

	because(feature, "instance types and preferences", label("sig-compute-instancetype"),
		`^virtctl/create_vm\.go.*([Ii]nfer|test_id:(9841|11647|11650)\])`),
	because(feature, "VirtualMachinePools", `^pool_test\.go`, `given a vmpool`),
	because(feature, "VirtualMachineInstancePresets", `^vmipreset_test\.go`, `VMI Presets|vmi preset`),
	because(feature, "snapshots and restores", `^storage/(snapshot|restore)\.go`, `VM (Snapshots|Restores)`,
		`given a vms(napshot|restore)`),
	because(feature, "clones", `^clone_test\.go`),
	because(feature, "exports", `^storage/export\.go`),
	because(feature, "backups", `^storage/(backup|cbt)\.go`),
	because(feature, "memory dumps", `^(storage|virtctl)/memorydump\.go`),
	because(feature, "libguestfs", `guestfs`),
	because(feature, "volumes that are plugged into running guests",
		`^storage/(hotplug|declarative-hotplug|utility-volumes)\.go`),
	because(feature, "CPUs and memory that are plugged into running guests", `^hotplug/(cpu|memory|pci-ports)\.go`,
		`^compute/vmi_memory_overhead\.go`),
	because(feature, "networks that are plugged into running guests", `^network/(hotplug_bridge|nad_live_update)\.go`),
	because(feature, "volumes that are exchanged under running guests", `^storage/migration\.go`),
	because(feature, "migrations between namespaces", label("RequiresDecentralizedLiveMigration")),
	because(feature, "plugins", label("RequiresPlugins"), `via plugin framework`),
	because(feature, "hook sidecars", `^vmi_(cloudinit_)?hook_sidecar_test\.go`),
	because(feature, "network binding plugins", label("netCustomBindingPlugins"), `^network/passt\.go`),
	because(feature, "VSOCK", label("vsock"), `on vmi vsock`),
	because(feature, "metrics of hosts for guests", `(?i)downward-?metrics`),
	because(feature, "Ignition", `^vmi_ignition_test\.go`),
	because(feature, "paths of the launcher as file systems", `^virtiofs/containerpath\.go`),
	because(feature, "realtime guests", label("sig-compute-realtime")),
	because(feature, "a reboot policy", label("RebootPolicy")),

	because(feature, "migrations of a machine's state on a volume that is not shared",
		`successfully defer a migration`, `should persist VM state of`),
	because(feature, "migrations of file systems", `Virtiofs should migrate`),
	because(feature, "PCI layouts before v3", `PCI Topology (v2|annotation)`),
	because(feature, "tags of devices with a config drive", `cloud-init meta_data with tagged devices`),
	because(feature, "the event GuestAgentPingFailed", `GuestAgentPingFailed`),
	because(feature, "the event NoSuitableNodesForHostModelMigration",
		`^migration/host_model\.go.*(test_id:7505\]|SupportedHostModelMigrationCPU)`),
	because(feature, "the annotation of virt-handler's heartbeat on nodes", `^vmi_lifecycle_test\.go.*test_id:1633\]`),
	because(feature, "the label kubevirt.io/schedulable=true of a cordoned node, by which the tests uncordon it",
		`^migration/eviction_strategy\.go.*with node tainted during node drain`),
	because(feature, "a condition about the guest agent's version", `^compute/guest_agent\.go.*test_id:(5267|6958)\]`),
	because(feature, "the event GuestPanicked", `Failed phase when a PanicDevice`),
	because(feature, "a guest that is paused until it converges", `should pause the VMI and`),

	because(difference, "there is no post-copy", `^migration/postcopy\.go.*should migrate using post-copy`,
		`autoconverge, and postcopy combined`),
	because(difference, "the launcher's container has no capability", `precisely the documented extra capabilities`),
	because(difference, "a deleted instance shows its last phase for a moment only",
		`should result in vmi status succeeded`),
	because(difference, "the log of the container compute has the text of the guest's serial console",
		`^guestlog/guestlog\.go`),
	because(difference, "the API server refuses a connection with a Status, which virtctl shows",
		`usbredir Should fail when limit`),

	because(internals, "KubeVirt's hooks for tests, and the names of its processes and containers",
		`(crash loop|crashloop) backoff`, `should restart a failed VMI`, `Should leave a failed VMI`,
		`keep-launcher-alive-after-failure`, `when evacuating fails`, `condition when migration fails`,
		`cancel pending target pod after a catch all timeout`, `should secure migrations with TLS`,
		`even if virtqemud has restarted`, `virtiofs layout the same`, `namespace and token the same for a pod`,
		`virt-launcher processes memory usage`,
		`^vmi_lifecycle_test\.go.*test_id:(1631|1656|3198)\]`, `^vm_test\.go.*when node becomes unhealthy`),
	because(internals, "launchers without image volumes", `version where ImageVolume was disabled`),
	because(internals, "paths of files in KubeVirt's launchers", `^vmi_cloudinit_test\.go.*test_id:(1615|1616|1618|`+
		`3178|3181|3182|3183|3184|3185|3186|3187)\]`, `^config_test\.go.*test_id:(778|779|780|782|783|786)\]`,
		`^container_disk_test\.go.*test_id:4299\]`),
	because(internals, "lines in the logs of KubeVirt's processes", `should attach virt-launcher to it`,
		`debug logs should be .*enabled when`, `should log libvirt start and stop lifecycle events`),
	because(kvm, "the memory that emulation adds",
		`set cpu and memory limit in the virt-launcher pod`, `should add guest-to-memory headroom`,
		`quota that doesn't have resources for both`),
	because(kvm, "KVM", `Node-labeller (basic|advanced) labeling .*(skip annotation|obsolete cpu models filter|`+
		`vendor label)`, `node with obsolete host-model`),
	because(environment, "firmware with Secure Boot but without SMM, which Debian does not have",
		`^vmi_configuration_test\.go.*test_id:1668\]`),
	because(environment, "a kubelet that systemd runs", `^network/vmi_lifecycle\.go.*kubelet restarts`),
	because(environment, "NetworkPolicies, which the local cluster's network does not enforce",
		`test_id:(1511|1512|1514|1515)\]`),
	because(environment, "Dropbear, Debian's kernel and busybox are in the guests in the place of the tests' own",
		`^portforward_test\.go`, `Check Free memory on the VMI`, `tablet input device with virtio bus`,
		`^network/link_state\.go`, `copy a local (file|directory) back and forth`, `test_id:(2774|2775)\]`),

	because(cdi, "DataVolumes", `^storage/(datavolume|storage|events|configuration|reservation)\.go`,
		`^virtctl/imageupload\.go`, `^virtiofs/datavolume\.go`, `(?i)data ?volume`, `shared DV`, label("rwxfs|RequiresRWXBlock"),
		label("storage-req")),
}
