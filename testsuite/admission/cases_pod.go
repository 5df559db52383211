package admission

// podCases are about what becomes the launcher pod's, and about how a guest is run.
func podCases() []specCase {
	const domain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', " +
		"and must start and end with an alphanumeric character " +
		`(e.g. 'example.com', regex used for validation is ` +
		`'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	return []specCase{
		{name: "subdomain", spec: `{subdomain: A_b}`,
			causes: []why{{invalid, "F.subdomain",
				"@ does not conform to the kubernetes DNS_SUBDOMAIN rules : " + domain}}},
		{name: "start strategy", spec: `{startStrategy: Slow}`,
			causes: []why{{invalid, "F.startStrategy", "@ is set with an unrecognized option: Slow"}}},
		{name: "paused and asked for life", spec: `{startStrategy: Paused, livenessProbe: {guestAgentPing: {}}}`,
			causes: []why{
				{invalid, "F.startStrategy",
					"either @ or F.livenessProbe should be provided.Pausing VMI with LivenessProbe is not supported"},
			}},
		{name: "eviction strategy", spec: `{evictionStrategy: Never}`,
			causes: []why{{invalid, "F.evictionStrategy", "@ is set with an unrecognized option: Never"}}},
		{name: "probe of no kind", spec: `{livenessProbe: {}}`, causes: []why{
			{missing, "F.livenessProbe",
				"either F.livenessProbe.tcpSocket, F.livenessProbe.exec or F.livenessProbe.httpGet must be set if a " +
					"@ is specified"},
		}},
		{name: "probe of two kinds", spec: `{readinessProbe: {exec: {command: [a]}, guestAgentPing: {}}}`,
			causes: []why{
				{invalid, "F.readinessProbe", "@ must have exactly one probe type set"},
			}},
		{name: "DNS without settings", spec: `{dnsPolicy: None}`,
			causes: []why{{missing, "F.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None"}}},
		{name: "DNS without servers", spec: `{dnsPolicy: None, dnsConfig: {searches: [a]}}`, causes: []why{
			{missing, "nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None"},
		}},
		{name: "too many DNS servers", spec: `{dnsConfig: {nameservers: [1.1.1.1, 2.2.2.2, 3.3.3.3, x]}}`,
			causes: []why{
				{invalid, "nameservers", "must not have more than 3 nameservers: [1.1.1.1 2.2.2.2 3.3.3.3 x]"},
				{invalid, "nameservers", "must be valid IP address: x"},
			}},
		{name: "too many domains", spec: `{dnsConfig: {searches: [a, b, c, d, e, f, g]}}`,
			causes: []why{{invalid, "searchDomains", "must not have more than 6 search paths"}}},
		{name: "odd domain", spec: `{dnsConfig: {searches: [A_b]}}`, causes: []why{{invalid, "searchDomains", domain}}},
		{name: "DNS option of no name", spec: `{dnsConfig: {options: [{value: "1"}]}}`,
			causes: []why{{invalid, "options", "Option.Name must not be empty"}}},
		{name: "account", spec: `{serviceAccountName: A_b}`,
			causes: []why{{invalid, "F.serviceAccountName", "@ is not a valid service account name: " + domain}}},
		{
			name: "another account", spec: `{serviceAccountName: x, domain: {devices: {disks: [{name: a}]}}, ` +
				`volumes: [{name: a, serviceAccount: {serviceAccountName: yy}}]}`,
			causes: []why{{invalid, "F.serviceAccountName",
				`spec.serviceAccountName "x" and serviceAccount volume "yy" must reference the same service account`}},
		},
		{name: "credential of no kind", spec: `{accessCredentials: [{}]}`,
			causes: []why{{invalid, "F.accessCredentials[0]", "@ must have exactly one access credential type set"}}},
		{name: "key without a volume",
			spec: `{accessCredentials: [{sshPublicKey: {source: {secret: {secretName: s}}, propagationMethod: ` +
				`{configDrive: {}}}}]}`, causes: []why{
				{
					invalid, "F.accessCredentials[0].sshPublicKey.propagationMethod",
					"F.accessCredentials[0] requires a configDrive volume to exist when the configDrive " +
						"propagationMethod is in use.",
				},
			}},
		{name: "key without users", spec: `{accessCredentials: [{sshPublicKey: {source: {}, propagationMethod: ` +
			`{qemuGuestAgent: {users: []}}}}]}`, causes: []why{
			{
				invalid, "F.accessCredentials[0].sshPublicKey.propagationMethod.qemuGuestAgent.users",
				"F.accessCredentials[0] requires at least one user to be present in the users list",
			},
			{invalid, "F.accessCredentials[0].sshPublicKey.source",
				"F.accessCredentials[0] must have exactly one source set"},
		}},
		{name: "password from nowhere",
			spec: `{accessCredentials: [{userPassword: {source: {}, propagationMethod: {}}}]}`, causes: []why{
				{invalid, "F.accessCredentials[0].userPassword.source",
					"F.accessCredentials[0] must have exactly one source set"},
				{invalid, "F.accessCredentials[0].userPassword.propagationMethod",
					"F.accessCredentials[0] must have exactly one propagationMethod set"},
			}},
		{name: "weight of a node",
			spec: `{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, ` +
				`preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}}`, causes: []why{
				{
					invalid, "F.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight",
					"@: Invalid value: 101: must be in the range 1-100",
				},
			}},
		{name: "node of no term",
			spec: `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: ` +
				`{nodeSelectorTerms: []}}}}`, causes: []why{
				{
					invalid, "F.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
					"@: Required value: must have at least one node selector term",
				},
			}},
		{name: "node by nothing",
			spec: `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ` +
				`[{matchExpressions: [{key: a, operator: In}]}]}}}}`, causes: []why{
				{
					invalid, "F.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution." +
						"nodeSelectorTerms[0].matchExpressions[0].values",
					"@: Required value: must be specified when `operator` is 'In' or 'NotIn'",
				},
			}},
		{name: "spread of nothing",
			spec: `{topologySpreadConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}`,
			causes: []why{
				{invalid, "F.topologySpreadConstraints[0].maxSkew", "@: Invalid value: 0: must be greater than zero"},
			}},
		{
			name: "spread twice", spec: `{topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, ` +
				`whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: zone,
					whenUnsatisfiable: DoNotSchedule}]}`,
			causes: []why{{
				invalid, "F.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}",
				`@: Duplicate value: "{zone, DoNotSchedule}"`,
			}},
		},
	}
}
