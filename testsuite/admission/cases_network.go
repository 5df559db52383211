package admission

// iface is a spec with one interface on the pod's network.
func iface(settings string) string {
	return `{domain: {devices: {interfaces: [{name: a, ` + settings + `}]}}, networks: [{name: a, pod: {}}]}`
}

func networkCases() []specCase {
	const i, name = "F.domain.devices.interfaces[0]", "F.domain.devices.interfaces[0].name"
	list := []specCase{
		{name: "interface of no network", spec: `{domain: {devices: {interfaces: [{name: a, bridge: {}}]}}}`,
			causes: []why{{invalid, name, "@ 'a' not found."}}},
		{name: "network of no interface", spec: `{networks: [{name: a, pod: {}}]}`,
			causes: []why{{missing, "F.networks[0].name", "@ 'a' not found."}}},
		{name: "network of no kind",
			spec:   `{domain: {devices: {interfaces: [{name: a, bridge: {}}]}}, networks: [{name: a}]}`,
			causes: []why{{missing, "F.networks[0]", "should have a network type"}}},
		{name: "network of two kinds",
			spec: `{domain: {devices: {interfaces: [{name: a, bridge: {}}]}}, networks: [{name: a, pod: {}, multus: ` +
				`{networkName: x}}]}`, causes: []why{
				{missing, "F.networks[0]", "should have only one network type"},
			}},
		{name: "Multus network of no name",
			spec: `{domain: {devices: {interfaces: [{name: a, bridge: {}}]}}, networks: [{name: a, multus: ` +
				`{networkName: ""}}]}`, causes: []why{
				{missing, "F.networks[0]", "CNI delegating plugin must have a networkName"},
			}},
		{name: "two pod networks",
			spec: `{domain: {devices: {interfaces: [{name: a, bridge: {}}, {name: b, bridge: {}}]}}, networks: ` +
				`[{name: a, pod: {}}, {name: b, pod: {}}]}`, causes: []why{
				{duplicate, "F.interfaces", "more than one interface is connected to a pod network in F.interfaces"},
			}},
		{
			name: "two default networks",
			spec: `{domain: {devices: {interfaces: [{name: a, bridge: {}}, {name: b, bridge: {}}]}}, networks: ` +
				`[{name: a, pod: {}}, {name: b, multus: {networkName: x, default: true}}]}`,
			causes: []why{{invalid, "F.networks",
				"Pod network cannot be defined when Multus default network is defined"}},
		},
		{name: "networks of one name",
			spec: `{domain: {devices: {interfaces: [{name: a, bridge: {}}]}}, networks: [{name: a, multus: ` +
				`{networkName: x}}, {name: a, multus: {networkName: yy}}]}`, causes: []why{
				{duplicate, "F.networks[1].name",
					`Network with name "a" already exists, every network must have a unique name`},
			}},
		{name: "interfaces of one name",
			spec: `{domain: {devices: {interfaces: [{name: a, bridge: {}}, {name: a, bridge: {}}]}}, networks: ` +
				`[{name: a, pod: {}}]}`, causes: []why{
				{duplicate, "F.domain.devices.interfaces[1].name",
					"Only one interface can be connected to one specific network"},
			}},
		{name: "no binding", spec: iface(`model: virtio`),
			causes: []why{{invalid, i, "logical a interface must have exactly one binding method or binding plugin"}}},
		{name: "masquerade on Multus",
			spec: `{domain: {devices: {interfaces: [{name: a, masquerade: {}}]}}, networks: [{name: a, multus: ` +
				`{networkName: x}}]}`, causes: []why{
				{invalid, name, "Masquerade interface only implemented with pod network"},
			}},
		{name: "passt on Multus",
			spec: `{domain: {devices: {interfaces: [{name: a, passtBinding: {}}]}}, networks: [{name: a, multus: ` +
				`{networkName: x}}]}`, causes: []why{
				{invalid, name, "PasstBinding interface only implemented with pod network"},
			}},
		{name: "reserved MAC address", spec: iface(`masquerade: {}, macAddress: "02:00:00:00:00:00"`), causes: []why{
			{invalid, i + ".macAddress",
				"The requested MAC address is reserved for the in-pod bridge. Please choose another one."},
		}},
		{name: "MAC address", spec: iface(`bridge: {}, macAddress: "02:00:00"`), causes: []why{
			{invalid, i + ".macAddress",
				"interface F.domain.devices.interfaces[0].name has malformed MAC address (02:00:00)."},
		}},
		{name: "model", spec: iface(`bridge: {}, model: ne3k`), causes: []why{
			{notSupported, i + ".model",
				"interface F.domain.devices.interfaces[0].name uses model ne3k that is not supported."},
		}},
		{name: "interface of an odd name",
			spec: `{domain: {devices: {interfaces: [{name: a.b, bridge: {}}]}}, networks: [{name: a.b, pod: {}}]}`,
			causes: []why{
				{invalid, name, "Network interface name can only contain alphabetical characters, numbers, " +
					"dashes (-) or " +
					"underscores (_)"},
			}},
		{name: "interface's PCI address", spec: iface(`bridge: {}, pciAddress: "81:01.0"`), causes: []why{
			{invalid, i + ".pciAddress",
				"interface F.domain.devices.interfaces[0].name has malformed PCI address (81:01.0)."},
		}},
		{name: "state", spec: iface(`bridge: {}, state: sleepy`),
			causes: []why{{invalid, i + ".state", "logical a interface state value is unsupported: sleepy"}}},
		{name: "absent from the pod's network", spec: iface(`bridge: {}, state: absent`), causes: []why{
			{invalid, i + ".state", `"a" interface's state "absent" is not supported on default networks`},
		}},
		{name: "absent masquerade", spec: iface(`masquerade: {}, state: absent`), causes: []why{
			{invalid, i + ".state", `"a" interface's state "absent" is supported only for bridge binding`},
			{invalid, i + ".state", `"a" interface's state "absent" is not supported on default networks`},
		}},
		{name: "ports", spec: iface(
			`masquerade: {}, ports: [{name: web, port: 80}, {name: web, port: 70000, protocol: SCTP}]`), causes: []why{
			{duplicate, i + ".ports[1].name", "Duplicate name of the port: web"},
			{invalid, i + ".ports[1].port", "Port field must be in range 0 < x < 65536."},
			{invalid, i + ".ports[1].protocol", "Unknown protocol, only TCP or UDP allowed"},
		}},
		{name: "name of a port", spec: iface(`masquerade: {}, ports: [{name: Web_1, port: 80}]`), causes: []why{
			{invalid, i + ".ports[0].name", "Invalid name of the port: Web_1"},
		}},
		{name: "port ranges", spec: iface(`masquerade: {}, portRanges: [{protocol: TCP, start: 1, end: 2}]`),
			causes: []why{
				{invalid, name, "portRanges is specified on interface but the PortRangesSpec feature gate is " +
					"not enabled"},
			}},
		{name: "private DHCP options",
			spec: iface(`bridge: {}, dhcpOptions: {privateOptions: [{option: 240, value: a}, {option: 240, value: ` +
				`b}, {option: 3, value: c}]}`), causes: []why{
				{invalid, "F", "Found Duplicates: you have provided duplicate DHCPPrivateOptions"},
				{invalid, "F", "provided DHCPPrivateOptions are out of range, must be in range 224 to 254"},
			}},
		{name: "time servers", spec: iface(`bridge: {}, dhcpOptions: {ntpServers: ["::1"]}`), causes: []why{
			{invalid, i + ".dhcpOptions.ntpServers[0]", "NTP servers must be a list of valid IPv4 addresses."},
		}},
	}
	for j := range list {
		list[j].network = true
	}
	return append(list, specCase{name: "interface's boot order of none", spec: iface(`bridge: {}, bootOrder: 0`),
		causes: []why{
			{invalid, "F[0].bootOrder", "F[0] must have a boot order > 0, if supplied"},
		}}, specCase{name: "no probe without the pod's network", spec: `{readinessProbe: {tcpSocket: {port: 80}}, ` +
		`domain: {devices: {autoattachPodInterface: false}}}`, causes: []why{
		{invalid, "F.readinessProbe.tcpSocket", "@ is only allowed if the Pod Network is attached"},
	}})
}
