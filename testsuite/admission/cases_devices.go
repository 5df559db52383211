package admission

// deviceCases are about what is attached but for disks and interfaces.
func deviceCases() []specCase {
	return []specCase{
		{name: "input on another bus", spec: `{domain: {devices: {inputs: [{name: a, type: keyboard, bus: ps2}]}}}`,
			causes: []why{
				{invalid, "F.domain.devices.inputs[0].bus", "Input device can have only virtio or usb bus."},
				{invalid, "F.domain.devices.inputs[0].type", "Input device can have only tablet type."},
			}},
		{name: "I/O threads policy", spec: `{domain: {ioThreadsPolicy: many}}`, causes: []why{
			{invalid, "F.domain.ioThreadsPolicy", "Invalid IOThreadsPolicy (many)"},
		}},
		{name: "a pool of no threads",
			spec: `{domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 0}}}`,
			causes: []why{
				{invalid, "F.domain.ioThreads.count",
					"the number of iothreads needs to be set and positive for the dedicated policy"},
			}},
		{name: "sound", spec: `{domain: {devices: {sound: {name: "", model: sb16}}}}`, causes: []why{
			{invalid, "F.Sound", "Sound device type is not supported. Options: 'ich9' or 'ac97'"},
			{invalid, "F.Sound", "Sound device requires a name field."},
		}},
		{name: "host devices", spec: `{domain: {devices: {hostDevices: [{name: a, deviceName: b}]}}}`, causes: []why{
			{invalid, "F.HostDevices", "Host Devices feature gate is not enabled in kubevirt-config"},
		}},
		{name: "a host device of no name", spec: `{domain: {devices: {hostDevices: [{name: a}]}}}`, causes: []why{
			{
				missing, "F.domain.devices.hostDevices",
				"vmi.spec.domain.devices.hostDevices contains HostDevices without deviceName or claimRequest; each " +
					"HostDevice must specify either a deviceName or a claimRequest",
			},
			{invalid, "F.HostDevices", "Host Devices feature gate is not enabled in kubevirt-config"},
		}},
		{name: "GPUs both ways", spec: `{domain: {devices: {gpus: [{name: a, deviceName: b}, {name: c, claimName: d, ` +
			`requestName: e}]}}}`, causes: []why{
			{invalid, "F.domain.devices.gpus",
				"vmi.spec.domain.devices.gpus contains both DRA and non-DRA GPUs; each GPU must be either DRA " +
					"or non-DRA"},
		}},
		{name: "a GPU of no claim", spec: `{domain: {devices: {gpus: [{name: c, claimName: d, requestName: e}]}}}`,
			causes: []why{
				{invalid, "F.resourceClaims",
					"vmi.spec.resourceClaims must specify all claims used in vmi.spec.domain.devices.gpus and " +
						"vmi.spec.domain.devices.hostDevices"},
			}},
		{name: "a GPU claimed twice",
			spec: `{resourceClaims: [{name: d, resourceClaimName: x}], domain: {devices: {gpus: [{name: c, ` +
				`claimName: d, requestName: e}, {name: f, claimName: d, requestName: e}]}}}`, causes: []why{
				{duplicate, "F.domain.devices.gpus[1]", `duplicate claimName/requestName pair "d/e"`},
			}},
		{name: "a claim of two kinds",
			spec: `{resourceClaims: [{name: d, resourceClaimName: x, resourceClaimTemplateName: yy}, {name: d}]}`,
			causes: []why{
				{invalid, "F.resourceClaims[0]",
					"at most one of resourceClaimName or resourceClaimTemplateName may be specified"},
				{duplicate, "F.resourceClaims[1].name", `duplicate resourceClaims name "d"`},
				{invalid, "F.resourceClaims[1]", "must specify one of: resourceClaimName, resourceClaimTemplateName"},
			}},
		{name: "vsock", spec: `{domain: {devices: {autoattachVSOCK: true}}}`, causes: []why{
			{invalid, "F.domain.devices.autoattachVSOCK", "VSOCK feature gate is not enabled in kubevirt-config"},
		}},
		{name: "downward metrics", spec: `{domain: {devices: {downwardMetrics: {}}}}`, causes: []why{
			{invalid, "F.domain.devices.downwardMetrics",
				"downwardMetrics virtio serial is not allowed: DownwardMetrics feature gate is not enabled"},
		}},
		{name: "video without graphics", only: "vm vmirs",
			spec: `{domain: {devices: {autoattachGraphicsDevice: false, video: {type: vga}}}}`, causes: []why{
				{invalid, "F.video",
					"Video configuration is not allowed when autoattachGraphicsDevice is set to false"},
			}},
		{name: "video of another architecture", only: "vmi", spec: `{domain: {devices: {video: {type: qxl}}}}`,
			causes: []why{
				{notSupported, "F.domain.devices.video.type",
					"video model 'qxl' is not supported on amd64 architecture"},
			}},
		{name: "panic device", spec: `{domain: {devices: {panicDevices: [{model: blue}]}}}`, causes: []why{
			{invalid, "F.domain.devices.panicDevices[0].model", "invalid PanicDeviceModel(blue)"},
		}},
		{name: "panic device on s390x",
			spec: `{architecture: s390x, domain: {machine: {type: s390-ccw-virtio}, devices: {panicDevices: [{}]}}}`,
			causes: []why{
				{invalid, "F.domain.devices.panicDevices",
					"custom panic devices are not supported on s390x architecture"},
			}},
		{name: "watchdog of another architecture", only: "vmi",
			spec: `{domain: {devices: {watchdog: {name: w, diag288: {action: reset}}}}}`, causes: []why{
				{notSupported, "F.domain.devices.watchdog", "amd64 only supports I6300ESB watchdog device"},
			}},
		{name: "two GPU displays",
			spec: `{domain: {devices: {gpus: [{name: a, deviceName: d, virtualGPUOptions: {display: {}}}, {name: b, ` +
				`deviceName: d, virtualGPUOptions: {display: {}}}]}}}`, causes: []why{
				{invalid, "F.GPUs", "configuring multiple displays with ramfb is not valid "},
			}},
	}
}
