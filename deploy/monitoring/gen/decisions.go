package main

// omission is a rule of KubeVirt's that virtflow does not have.
type omission struct{ name, reason string }

// Reasons that several rules share.
const (
	noOperator  = "virtflow has no virt-operator: manifests install it."
	noSnapshots = "virtflow has no snapshots, and restores nothing from them."
)

// omissions are the rules that virtflow does not have.
func omissions() []omission {
	return []omission{
		{"VirtOperatorDown", noOperator},
		{"LowVirtOperatorCount", noOperator},
		{"VirtOperatorRESTErrorsBurst", noOperator},
		{"LowReadyVirtOperatorsCount", noOperator},
		{"NoReadyVirtOperator", noOperator},
		{"NoLeadingVirtOperator", noOperator},
		{"VirtHandlerRESTErrorsBurst", "A node worker sends no requests to the Kubernetes API."},
		{"VMNonRecoverableOSPanic", "Its metric is missing: a launcher reports a guest's panic and the end of QEMU alike."},
		{"cluster:kubevirt_virt_operator_up:sum", noOperator},
		{"cluster:kubevirt_virt_operator_pods_running:count", noOperator},
		{"cluster:kubevirt_virt_operator_ready:sum", noOperator},
		{"cluster:kubevirt_virt_operator_leading:sum", noOperator},
		{"kubevirt_virt_operator_up", noOperator},
		{"kubevirt_virt_operator_ready", noOperator},
		{"kubevirt_virt_operator_leading", noOperator},
		{"pvc:kubevirt_vmsnapshot_labels:info", noSnapshots},
		{"vm:kubevirt_vmsnapshot_disks_restored:sum", noSnapshots},
		{"vm:kubevirt_vmsnapshot_restored_bytes:sum", noSnapshots},
		{"kubevirt_vmsnapshot_persistentvolumeclaim_labels", noSnapshots},
		{"kubevirt_vmsnapshot_disks_restored_from_source", noSnapshots},
		{"kubevirt_vmsnapshot_disks_restored_from_source_bytes", noSnapshots},
		{"kubevirt_vm_created_total", "It is deprecated, and its metric is missing: the VMs that a replica has admitted."},
	}
}

// change is a rule with another expression than KubeVirt's, decided when that had the digest of.
type change struct{ name, of, expr, reason string }

// notMatching is why the alerts of memory are changed.
const notMatching = "KubeVirt's compares names of VMIs with names of pods, which are never the same."

// controllers begins the selection of the requests of the programs that do the work of virt-controller.
const controllers = `kubevirt_rest_client_requests_total{namespace="virtflow",` +
	`pod=~"virtflow-(control-worker|crdwatch|node-gateway)-.*"`

// running adds the label vm to series of VMIs that run.
const running = ` * on (name, namespace) group_left (vm)
  label_replace(topk by (name, namespace) (1, kubevirt_vmi_info{phase="running"}), "vm", "$1", "name", "(.+)")`

// changes are the rules with another expression, which select the same as KubeVirt's was meant to.
func changes() []change {
	return []change{
		{"vmi:kubevirt_vmi_guest_queue_length:sum", "8c819948550a", `sum by (name, namespace) (
  clamp_min(sum by (name, namespace, node) (kubevirt_vmi_guest_load_1m) - vmi:kubevirt_vmi_vcpu:count, 0)
)`, "KubeVirt's finds nothing for a VMI with labels: the load has them as labels, and the number of CPUs does not."},
		{"KubeVirtVMIExcessiveMigrations", "4dda9aaa820e", `sum by (vmi, namespace) (topk by (vmi, namespace, vmim) (1,
  max_over_time(kubevirt_vmi_migration_succeeded[1d])
  unless on (namespace, vmi, vmim) kubevirt_vmi_migration_succeeded offset 1d
)) >= 12`, "KubeVirt deletes all but the last five migrations of a VMI, and virtflow none: old ones do not count."},
		{"VirtControllerRESTErrorsBurst", "8b85fe3ec11a",
			`sum by (pod) (rate(` + controllers + `,code=~"(4|5)[0-9][0-9]"}[5m]))
/ sum by (pod) (rate(` + controllers + `}[5m])) >= 0.8`, "Three programs do the work of virt-controller. The sum of their requests would hide the one that fails."},
		{"KubeVirtVMGuestMemoryPressure", "c4763246c354", `(
  vmi:kubevirt_vmi_memory_headroom_ratio:sum < 0.05
  and (vmi:kubevirt_vmi_pgmajfaults:rate5m > 5 or vmi:kubevirt_vmi_swap_traffic_bytes:rate5m > 1048576)
  and vmi:kubevirt_vmi_memory_available_bytes:sum > 0
)` + running, notMatching},
		{"KubeVirtVMGuestMemoryAvailableLow", "0ea868d63b3e", `(
  vmi:kubevirt_vmi_memory_headroom_ratio:sum < 0.03
  and vmi:kubevirt_vmi_swap_traffic_bytes:rate30m < 2048 and vmi:kubevirt_vmi_pgmajfaults:rate30m < 1
  and vmi:kubevirt_vmi_memory_available_bytes:sum > 0
)` + running, notMatching},
	}
}

// name has a name in KubeVirt's rules and their texts, and the name of the same here. The first that is found counts.
type name struct{ kubevirt, virtflow string }

// components are the names of containers, pods and workloads. Launcher pods have KubeVirt's.
func components() []name {
	return []name{
		{"virt-controller|virt-api|virt-handler|virt-operator|compute", "control-worker|api-server|node-worker|compute"},
		{`pod=~"virt-.*"`, `pod=~"(virt-launcher|virtflow)-.*"`},
		{"rest calls failed in virt-controller", "rest calls failed in {{ $labels.pod }}"},
		{"virt-api", "virtflow-api-server"},
		{"virt-controller", "virtflow-control-worker"},
		{"virt controllers", "control workers"},
		{"virt-handler", "virtflow-node-worker"},
	}
}
