package admission

// disk is a spec with one disk that shows a container disk.
func disk(settings string) string {
	return `{domain: {devices: {disks: [{name: a, ` + settings +
		`}]}}, volumes: [{name: a, containerDisk: {image: i}}]}`
}

// volume is a spec with one volume of a kind, which a disk shows.
func volume(source string) string {
	return `{domain: {devices: {disks: [{name: a}]}}, volumes: [{name: a, ` + source + `}]}`
}

func storageCases() []specCase {
	const d, v, label = "F.domain.devices.disks[0]", "F.volumes[0]",
		"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and " +
			"end with an alphanumeric character " +
			"(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
	return []specCase{
		{name: "disk of no volume", spec: `{domain: {devices: {disks: [{name: a, disk: {}}]}}}`, causes: []why{
			{invalid, d + ".name", "F.domain.devices.disks[0].Name 'a' not found."},
		}},
		{name: "disks of one name",
			spec: `{domain: {devices: {disks: [{name: a}, {name: a}]}}, volumes: [{name: a, containerDisk: ` +
				`{image: i}}]}`, causes: []why{
				{invalid, "F.domain.devices.disks[1].name",
					"F.domain.devices.disks[1] and F.domain.devices.disks[0] must not have the same Name."},
			}},
		{name: "disk of an odd name",
			spec: `{domain: {devices: {disks: [{name: A_b}]}}, volumes: [{name: A_b, containerDisk: {image: i}}]}`,
			causes: []why{
				{invalid, "F.domain.devices.disks.domain.devices.disks[0].name", label},
			}},
		{name: "disk of two kinds", spec: disk(`disk: {}, cdrom: {}`), causes: []why{
			{invalid, d, "@ can only have a single target type defined"},
		}},
		{name: "LUN of an image", spec: disk(`lun: {}`), causes: []why{
			{invalid, d + ".lun", "@ can only be mapped to a DataVolume or PersistentVolumeClaim volume."},
		}},
		{name: "reserved LUN", spec: `{domain: {devices: {disks: [{name: a, lun: {reservation: true}}]}}, volumes: ` +
			`[{name: a, persistentVolumeClaim: {claimName: c}}]}`, causes: []why{
			{invalid, "F.domain.devices.disks.luns.reservation",
				"persistent reservation is not enabled in kubevirt config"},
		}},
		{name: "bus", spec: disk(`disk: {bus: nvme}`), causes: []why{
			{invalid, d + ".disk.bus", "F.domain.devices.disks[0] is set with an unrecognized bus nvme, " +
				"must be one of: [virtio scsi sata usb]"},
		}},
		{name: "ide", spec: disk(`cdrom: {bus: ide}`),
			causes: []why{{invalid, d + ".cdrom.bus", "IDE bus is not supported"}}},
		{name: "CD-ROM on virtio", spec: disk(`cdrom: {bus: virtio}`), causes: []why{
			{invalid, d + ".cdrom.bus", "Bus type virtio is invalid for CD-ROM device"},
		}},
		{name: "read-only SATA disk", spec: disk(`disk: {bus: sata, readonly: true}`), causes: []why{
			{invalid, d + ".disk.bus", "sata hard-disks do not support read-only."},
		}},
		{name: "I/O thread on SATA", spec: disk(`disk: {bus: sata}, dedicatedIOThread: true`), causes: []why{
			{notSupported, "F.domain.devices.disks.domain.devices.disks[0]",
				"IOThreads are not supported for disks on a sata bus"},
		}},
		{name: "PCI address on SATA", spec: disk(`disk: {bus: sata, pciAddress: "0000:81:01.0"}`), causes: []why{
			{
				invalid, "F.domain.devices.disks.domain.devices.disks.disk[0].pciAddress",
				"disk F.domain.devices.disks.domain.devices.disks.disk[0].name - setting a PCI address is only " +
					"possible with bus type virtio.",
			},
		}},
		{name: "PCI address", spec: disk(`disk: {bus: virtio, pciAddress: "0:81:01.0"}`), causes: []why{
			{
				invalid, "F.domain.devices.disks.domain.devices.disks.disk[0].pciAddress",
				"disk F.domain.devices.disks.domain.devices.disks.disk[0].name has malformed PCI address (0:81:01.0).",
			},
		}},
		{name: "boot order of none", spec: disk(`bootOrder: 0`),
			causes: []why{{invalid, d + ".bootOrder",
				"F.domain.devices.disks[0] must have a boot order > 0, if supplied"}}},
		{
			name: "one boot order twice",
			spec: `{domain: {devices: {disks: [{name: a, bootOrder: 1}, {name: b, bootOrder: 1}]}}, volumes: ` +
				`[{name: a, containerDisk: {image: i}}, {name: b, containerDisk: {image: i}}]}`,
			causes: []why{{invalid, "F.domain.devices.disks[1].bootOrder",
				"Boot order for @ already set for a different device."}},
		},
		{name: "serial number", spec: disk(`serial: "a b"`), causes: []why{
			{invalid, d + ".serial", "F.domain.devices.disks[0] must be made up of the following characters " +
				"[A-Za-z0-9_.+-], if specified"},
		}},
		{name: "cache", spec: disk(`cache: all`), causes: []why{{invalid, d + ".cache", "@ has invalid value all"}}},
		{name: "I/O mode", spec: disk(`io: fast`), causes: []why{
			{notSupported, "F.domain.devices.disks.domain.devices.disks[0].io",
				"Disk IO mode for F.domain.devices.disks is not supported. Supported modes are: native, threads."},
		}},
		{name: "error policy", spec: disk(`errorPolicy: hope`),
			causes: []why{{invalid, d + ".errorPolicy", `@ has invalid value "hope"`}}},
		{name: "block size", spec: disk(`disk: {bus: virtio}, blockSize: {custom: {logical: 512, physical: 3000}}`),
			causes: []why{
				{invalid, d + ".blockSize.custom.physical", "Provided size of 3000 is not a power of 2"},
			}},
		{name: "block size too large",
			spec: disk(`disk: {bus: virtio}, blockSize: {custom: {logical: 512, physical: 4194304}}`), causes: []why{
				{invalid, d + ".blockSize.custom.physical",
					"Provided size of 4194304 is greater than the supported maximum size of 2097152"},
			}},
		{name: "volumes of one name",
			spec: `{domain: {devices: {disks: [{name: a}]}}, volumes: [{name: a, containerDisk: {image: i}}, {name: ` +
				`a, containerDisk: {image: i}}]}`, causes: []why{
				{invalid, "F.volumes[1].name", "F.volumes[1] and F.volumes[0] must not have the same Name."},
			}},
		{name: "volume of no kind", spec: `{domain: {devices: {disks: [{name: a}]}}, volumes: [{name: a}]}`,
			causes: []why{{invalid, v, "@ must have exactly one source type set"}}},
		{name: "volume of two kinds", spec: volume(`containerDisk: {image: i}, emptyDisk: {capacity: 1Gi}`),
			causes: []why{{invalid, v, "@ must have exactly one source type set"}}},
		{name: "data volume of no name", spec: volume(`dataVolume: {name: ""}`),
			causes: []why{{missing, v + ".name", "DataVolume 'name' must be set"}}},
		{name: "config map of no name", spec: volume(`configMap: {}`),
			causes: []why{{invalid, v + ".configMap.name", "@ is a required field"}}},
		{name: "secret of no name", spec: volume(`secret: {}`),
			causes: []why{{invalid, v + ".secret.secretName", "@ is a required field"}}},
		{name: "two accounts", spec: `{domain: {devices: {disks: [{name: a}, {name: b}]}}, volumes: [{name: a, ` +
			`serviceAccount: {serviceAccountName: x}}, {name: b, serviceAccount: {serviceAccountName: x}}]}`,
			causes: []why{
				{invalid, "F.volumes", "@ must have max one serviceAccount volume set"},
			}},
		{name: "host disk", spec: volume(`hostDisk: {path: /data/a.img, type: Disk, capacity: 1Gi}`), causes: []why{
			{invalid, v, "HostDisk feature gate is not enabled"},
			{invalid, v + ".hostDisk.capacity",
				"@ is allowed to pass only with F.volumes[0].hostDisk.type equal to 'DiskOrCreate'"},
		}},
		{name: "no cloud-init", spec: volume(`cloudInitNoCloud: {}`), causes: []why{
			{invalid, v + ".cloudInitNoCloud", "@ must have at least one userdatasource or one networkdatasource set."},
		}},
		{name: "user data twice", spec: volume(`cloudInitConfigDrive: {userData: x, userDataBase64: eA==}`),
			causes: []why{
				{invalid, v + ".cloudInitConfigDrive", "@ must have only one userdatasource set."},
			}},
		{name: "network data twice",
			spec: volume(`cloudInitNoCloud: {networkData: x, networkDataSecretRef: {name: yy}}`), causes: []why{
				{invalid, v + ".cloudInitNoCloud", "@ must have only one networkdata source set."},
			}},
		{name: "user data that is no base64", spec: volume(`cloudInitNoCloud: {userDataBase64: "#"}`), causes: []why{
			{invalid, v + ".cloudInitNoCloud.userDataBase64",
				"@.cloudInitNoCloud.userDataBase64 is not a valid base64 value."},
		}},
		{name: "path above the image", spec: volume(`containerDisk: {image: i, path: /disk/../a}`), causes: []why{
			{invalid, v + ".containerDisk", "@ must be an absolute path to a file without relative components"},
		}},
		{name: "path of a folder", spec: volume(`containerDisk: {image: i, path: /}`),
			causes: []why{{invalid, v + ".containerDisk", "@ must not point to root"}}},
		{name: "utility volumes", spec: `{utilityVolumes: [{name: u, claimName: c}]}`, causes: []why{
			{invalid, "F.utilityVolumes",
				"cannot create VMI with utility volumes in spec, utility volumes can only be added via hotplug"},
		}},
		{name: "file system of a claim",
			spec: `{domain: {devices: {filesystems: [{name: a, virtiofs: {}}]}}, volumes: [{name: a, ` +
				`persistentVolumeClaim: {claimName: c}}]}`, causes: []why{
				{invalid, "F.domain.devices.filesystems",
					"virtiofs is not allowed: virtiofs feature gate is not enabled for PVC"},
			}},
		{name: "volume that nothing shows", only: "vmi", spec: `{volumes: [{name: a, containerDisk: {image: i}}]}`,
			causes: []why{
				{invalid, "F.domain.volumes[0].name", "@ 'a' not found."},
			}},
	}
}
