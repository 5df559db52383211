package subresources_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/kube"
)

const by = contract.AnnotationRequestedBy

// refused is KubeVirt's 409 of a VM.
func refused(t *testing.T, a answer, name, why string) {
	t.Helper()
	require.Equal(t, 409, a.code, a.body)
	require.Equal(t, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: "Conflict", Code: 409,
		Message: `Operation cannot be fulfilled on virtualmachine.kubevirt.io "` + name + `": ` + why,
		Details: &metav1.StatusDetails{Name: name, Group: "kubevirt.io", Kind: "virtualmachine"},
	}, a.status)
}

func accepted(t *testing.T, a answer) {
	t.Helper()
	require.Equal(t, answer{code: 202}, a)
}

func running(vm *kubevirtv1.VirtualMachine) { vm.Status.Created = true }

func TestStart(t *testing.T) {
	const always, halted, manual, rerun, once = kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyHalted,
		kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce
	start := []string{"Start"}
	for name, c := range map[string]struct {
		strategy kubevirtv1.VirtualMachineRunStrategy
		instance kubevirtv1.VirtualMachineInstancePhase
		change   func(*kubevirtv1.VirtualMachine)
		body     string
		refusal  string
		code     int
		becomes  kubevirtv1.VirtualMachineRunStrategy
		requests []string
		paused   bool
	}{
		"halted": {strategy: halted, becomes: always},
		"halted, to be paused": {strategy: halted, body: `{"paused":true}`, becomes: halted, requests: start,
			paused: true},
		"halted, only tried":    {strategy: halted, body: `{"dryRun":["All"]}`, becomes: halted},
		"halted, going down":    {strategy: halted, instance: kubevirtv1.Running, refusal: "VM is already running"},
		"halted, ended":         {strategy: halted, instance: kubevirtv1.Succeeded, becomes: always},
		"manual":                {strategy: manual, becomes: manual, requests: start},
		"manual, only tried":    {strategy: manual, body: `{"dryRun":["All"]}`, becomes: manual},
		"manual, with a status": {strategy: manual, change: running, becomes: manual, requests: start},
		"manual, ended": {strategy: manual, instance: kubevirtv1.Failed, becomes: manual,
			requests: []string{"Stop", "Start"}},
		"manual, runs":      {strategy: manual, instance: kubevirtv1.Scheduling, refusal: "VM is already running"},
		"manual, not begun": {strategy: manual, instance: "", becomes: manual, requests: start},
		"rerun": {strategy: rerun, body: `{"paused":true}`, becomes: rerun, requests: start,
			paused: true},
		"rerun, failed": {strategy: rerun, instance: kubevirtv1.Failed,
			refusal: "RerunOnFailure does not support starting VM from failed state"},
		"rerun, ended well": {strategy: rerun, instance: kubevirtv1.Succeeded, becomes: rerun,
			requests: []string{"Stop", "Start"}},
		"always":       {strategy: always, refusal: "Always does not support manual start requests"},
		"always, runs": {strategy: always, instance: kubevirtv1.Running, refusal: "VM is already running"},
		"once":         {strategy: once, refusal: "Once does not support manual start requests"},
		"neither":      {becomes: always},
		"running: false": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.Running = new(false)
		}, becomes: always},
		"has failed to start": {strategy: manual, change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Status.StartFailure = &kubevirtv1.VirtualMachineStartFailure{ConsecutiveFailCount: 3}
		}, becomes: manual, requests: start},
		"another request waits": {strategy: manual, change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Status.StateChangeRequests = []kubevirtv1.VirtualMachineStateChangeRequest{{Action: "Start"}}
		}, code: 500},
		"needs manual recovery": {strategy: halted, change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Status.Conditions = []kubevirtv1.VirtualMachineCondition{
				{Type: "ManualRecoveryRequired", Status: "True"}}
		}, refusal: "VM recovery required: Volume migration failed, leaving some volumes pointing to non-consistent " +
			"targets; manual intervention is needed to reassign them to their original volumes."},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.vm("web", c.strategy, c.change)
			if c.instance != "" || name == "manual, not begun" {
				r.vmi("web", c.instance, nil)
			}
			a := r.do("PUT", "virtualmachines/web/start", c.body)
			vm := r.getVM("web")
			switch {
			case c.refusal != "":
				refused(t, a, "web", c.refusal)
				require.Empty(t, vm.Status.StateChangeRequests)
				return
			case c.code != 0:
				require.Equal(t, c.code, a.code)
				require.Equal(t, "Internal error occurred: unable to complete request: stop/start already underway",
					a.status.Message)
				return
			}
			accepted(t, a)
			is, err := vm.RunStrategy()
			require.NoError(t, err)
			require.Equal(t, c.becomes, is)
			if c.becomes != c.strategy && c.strategy == halted {
				require.Equal(t, "jane", vm.Annotations[by])
			}
			var actions []string
			for _, q := range vm.Status.StateChangeRequests {
				actions = append(actions, string(q.Action))
				require.Equal(t, "jane", q.Data[by], "who asked goes with the request")
				require.Equal(t, c.paused, q.Data["paused"] == "true")
			}
			require.Equal(t, c.requests, actions)
			require.Nil(t, vm.Status.StartFailure)
		})
	}
}

func TestStop(t *testing.T) {
	const always, halted, manual, rerun, once = kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyHalted,
		kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce
	const short = "Halted only supports manual stop requests with a shorter graceperiod"
	for name, c := range map[string]struct {
		strategy kubevirtv1.VirtualMachineRunStrategy
		phase    kubevirtv1.VirtualMachineInstancePhase // "": there is no instance
		body     string
		refusal  string
		becomes  kubevirtv1.VirtualMachineRunStrategy
		stops    bool
		grace    int64
	}{
		"always": {strategy: always, phase: kubevirtv1.Running, becomes: halted, grace: 30},
		"always, at once": {strategy: always, phase: kubevirtv1.Running, body: `{"gracePeriod":0}`,
			becomes: halted},
		"always, only tried": {strategy: always, phase: kubevirtv1.Running,
			body: `{"gracePeriod":0,"dryRun":["All"]}`, becomes: always, grace: 30},
		"always, without an instance": {strategy: always, becomes: halted},
		"once":                        {strategy: once, phase: kubevirtv1.Running, becomes: halted, grace: 30},
		"manual": {strategy: manual, phase: kubevirtv1.Running, becomes: manual, stops: true,
			grace: 30},
		"manual, in seven seconds": {strategy: manual, phase: kubevirtv1.Running, body: `{"gracePeriod":7}`,
			becomes: manual, stops: true, grace: 7},
		"manual, ended":               {strategy: manual, phase: kubevirtv1.Succeeded, refusal: "VM is not running"},
		"manual, without an instance": {strategy: manual, refusal: "VM is not running"},
		"rerun": {strategy: rerun, phase: kubevirtv1.Scheduling, becomes: rerun, stops: true,
			grace: 30},
		"rerun, without an instance": {strategy: rerun, body: `{"gracePeriod":0}`, refusal: "VM is not running"},
		"halted":                     {strategy: halted, refusal: "VM is not running"},
		"halted, going down":         {strategy: halted, phase: kubevirtv1.Running, refusal: short},
		"halted, not shorter": {strategy: halted, phase: kubevirtv1.Running, body: `{"gracePeriod":30}`,
			refusal: short},
		"halted, going down, but force": {strategy: halted, phase: kubevirtv1.Running, body: `{"gracePeriod":0}`,
			becomes: halted, stops: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.vm("web", c.strategy, running)
			if c.phase != "" {
				r.vmi("web", c.phase, func(vmi *kubevirtv1.VirtualMachineInstance) {
					vmi.Spec.TerminationGracePeriodSeconds = new(int64(30))
				})
			}
			a := r.do("PUT", "virtualmachines/web/stop", c.body)
			vm := r.getVM("web")
			if c.refusal != "" {
				refused(t, a, "web", c.refusal)
				require.Empty(t, vm.Status.StateChangeRequests)
				return
			}
			accepted(t, a)
			require.Equal(t, c.becomes, *vm.Spec.RunStrategy)
			if c.phase == "" {
				return
			}
			vmi := r.getVMI("web")
			require.Equal(t, c.grace, *vmi.Spec.TerminationGracePeriodSeconds)
			if !c.stops {
				require.Empty(t, vm.Status.StateChangeRequests)
				return
			}
			require.Len(t, vm.Status.StateChangeRequests, 1)
			require.Equal(t, kubevirtv1.StopRequest, vm.Status.StateChangeRequests[0].Action)
			require.Equal(t, vmi.UID, *vm.Status.StateChangeRequests[0].UID)
		})
	}
	r := newRig(t)
	require.Equal(t, 400, r.do("PUT", "virtualmachines/web/stop", `{"gracePeriod":-1}`).code)
}

// TestStartConflictsWithFirstStatus: the first status of a new VM is written between the read and the write of the
// request, which is then decided again.
func TestStartConflictsWithFirstStatus(t *testing.T) {
	for strategy, body := range map[kubevirtv1.VirtualMachineRunStrategy]string{
		kubevirtv1.RunStrategyManual: "", kubevirtv1.RunStrategyHalted: `{"paused":true}`,
	} {
		t.Run(string(strategy), func(t *testing.T) {
			r := newRig(t)
			r.unseen("web", strategy)
			writes := r.meanwhile(func(n int, vm *kubevirtv1.VirtualMachine) {
				if n == 1 {
					vm.Status.PrintableStatus = kubevirtv1.VirtualMachineStatusStopped
				}
			})
			accepted(t, r.do("PUT", "virtualmachines/web/start", body))
			require.Equal(t, 2, *writes)
			vm := r.getVM("web")
			require.Equal(t, kubevirtv1.VirtualMachineStatusStopped, vm.Status.PrintableStatus, "nothing is lost")
			require.Len(t, vm.Status.StateChangeRequests, 1)
		})
	}
	r := newRig(t)
	r.unseen("web", kubevirtv1.RunStrategyManual)
	r.meanwhile(func(n int, vm *kubevirtv1.VirtualMachine) {
		vm.Labels = map[string]string{"n": strconv.Itoa(n)}
	})
	refused(t, r.do("PUT", "virtualmachines/web/start", ""), "web", "it has changed meanwhile: try again")
}

// unseen makes a VM that has no status yet.
func (r *rig) unseen(name string, strategy kubevirtv1.VirtualMachineRunStrategy) {
	require.NoError(r.t, r.client.Create(r.t.Context(), &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: kubevirtv1.VirtualMachineSpec{RunStrategy: &strategy,
			Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{}},
	}))
}

// meanwhile changes a VM each time before its status is patched, and counts that.
func (r *rig) meanwhile(change func(n int, vm *kubevirtv1.VirtualMachine)) *int {
	n := new(int)
	r.kube.Intercept(func(q kube.Request) *kube.Fault {
		if q.Call() == "PATCH virtualmachines/status" {
			*n++
			vm := r.getVM("web")
			change(*n, vm)
			if status := vm.Status; status.PrintableStatus != "" {
				require.NoError(r.t, r.client.Status().Update(r.t.Context(), vm))
			} else {
				require.NoError(r.t, r.client.Update(r.t.Context(), vm))
			}
		}
		return nil
	})
	return n
}

// TestAnothersInstanceKeepsItsGracePeriod: an instance that another owner controls keeps its grace period, although it
// has the VM's name.
func TestAnothersInstanceKeepsItsGracePeriod(t *testing.T) {
	for path, body := range map[string]string{"stop": `{"gracePeriod":0}`, "restart": `{"gracePeriodSeconds":0}`} {
		t.Run(path, func(t *testing.T) {
			r := newRig(t)
			r.vm("web", kubevirtv1.RunStrategyManual, running)
			r.vmi("web", kubevirtv1.Running, func(vmi *kubevirtv1.VirtualMachineInstance) {
				disown(vmi)
				vmi.Spec.TerminationGracePeriodSeconds = new(int64(30))
			})
			require.Equal(t, 409, r.do("PUT", "virtualmachines/web/"+path, body).code)
			require.EqualValues(t, 30, *r.getVMI("web").Spec.TerminationGracePeriodSeconds)
			require.Empty(t, r.getVM("web").Status.StateChangeRequests)
		})
	}
}

func TestStopReplacesPendingRequests(t *testing.T) {
	r := newRig(t)
	r.vm("web", kubevirtv1.RunStrategyManual, func(vm *kubevirtv1.VirtualMachine) {
		vm.Status.StateChangeRequests = []kubevirtv1.VirtualMachineStateChangeRequest{
			{Action: "Stop", UID: new(vm.UID)}, {Action: "Start"}}
	})
	r.vmi("web", kubevirtv1.Running, nil)
	accepted(t, r.do("PUT", "virtualmachines/web/stop", ""))
	require.Len(t, r.getVM("web").Status.StateChangeRequests, 1)
}

func TestRestart(t *testing.T) {
	r := newRig(t)
	const path = "virtualmachines/web/restart"
	for body, text := range map[string]string{
		`{"gracePeriodSeconds":10}`: "For force restart, only gracePeriod=0 is supported for now",
		`{"gracePeriodSeconds":-1}`: "gracePeriod has to be greater or equal to 0",
	} {
		a := r.do("PUT", path, body)
		require.Equal(t, 400, a.code, "even of a VM that does not exist")
		require.Equal(t, text, a.status.Message)
		require.Nil(t, a.status.Details)
	}
	r.vm("web", kubevirtv1.RunStrategyAlways, running)
	refused(t, r.do("PUT", path, ""), "web", "VM is not running: Halted")
	r.vm("loops", kubevirtv1.RunStrategyAlways, func(vm *kubevirtv1.VirtualMachine) {
		vm.Status.PrintableStatus = kubevirtv1.VirtualMachineStatusCrashLoopBackOff
		vm.Status.StartFailure = &kubevirtv1.VirtualMachineStartFailure{
			RetryAfterTimestamp: new(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))}
	})
	refused(t, r.do("PUT", "virtualmachines/loops/restart", ""), "loops", "VM is not running: CrashLoopBackOff, its "+
		"instances end before they run; the next start is at 2026-01-02T03:04:05Z, or at once with the control retry-now")
	r.vm("fills", kubevirtv1.RunStrategyAlways, func(vm *kubevirtv1.VirtualMachine) {
		vm.Status.PrintableStatus = kubevirtv1.VirtualMachineStatusProvisioning
	})
	refused(t, r.do("PUT", "virtualmachines/fills/restart", ""), "fills", "VM is not running: Provisioning")
	r.vmi("web", kubevirtv1.Running, nil)
	accepted(t, r.do("PUT", path, `{"dryRun":["All"]}`))
	require.Empty(t, r.getVM("web").Status.StateChangeRequests)
	accepted(t, r.do("PUT", path, ""))
	requests := r.getVM("web").Status.StateChangeRequests
	require.Len(t, requests, 2)
	require.Equal(t, r.getVMI("web").UID, *requests[0].UID)
	require.Equal(t, kubevirtv1.StartRequest, requests[1].Action)
	a := r.do("PUT", path, `{"gracePeriodSeconds":0}`)
	require.Equal(t, 500, a.code)
	require.Equal(t, []metav1.StatusCause{{Message: "unable to complete request: stop/start already underway"}},
		a.status.Details.Causes)
	require.Nil(t, r.getVMI("web").Spec.TerminationGracePeriodSeconds, "nothing was written")
	for _, s := range []kubevirtv1.VirtualMachineRunStrategy{kubevirtv1.RunStrategyHalted, kubevirtv1.RunStrategyOnce} {
		r.vm("vm-"+string(s[0]+32), s, nil)
		refused(t, r.do("PUT", "virtualmachines/vm-"+string(s[0]+32)+"/restart", ""), "vm-"+string(s[0]+32),
			"RunStategy "+string(s)+" does not support manual restart requests")
	}
}

// TestFailedForcedRestartRestoresGracePeriod.
func TestFailedForcedRestartRestoresGracePeriod(t *testing.T) {
	r := newRig(t)
	const path = "virtualmachines/web/restart"
	r.vm("web", kubevirtv1.RunStrategyAlways, running)
	r.vmi("web", kubevirtv1.Running, func(vmi *kubevirtv1.VirtualMachineInstance) {
		vmi.Spec.TerminationGracePeriodSeconds = new(int64(30))
	})
	r.kube.Intercept(func(q kube.Request) *kube.Fault {
		if q.Call() == "PATCH virtualmachines/status" {
			return &kube.Fault{Err: errors.New("connection refused")}
		}
		return nil
	})
	require.Equal(t, 500, r.do("PUT", path, `{"gracePeriodSeconds":0}`).code)
	require.EqualValues(t, 30, *r.getVMI("web").Spec.TerminationGracePeriodSeconds)
	r.kube.Intercept(nil)
	accepted(t, r.do("PUT", path, `{"gracePeriodSeconds":0}`))
	require.EqualValues(t, 1, *r.getVMI("web").Spec.TerminationGracePeriodSeconds)
}

// TestConcurrentUser: a decision from an old reading is not written.
func TestConcurrentUser(t *testing.T) {
	r := newRig(t)
	r.vm("web", kubevirtv1.RunStrategyHalted, nil)
	first := true
	r.kube.Intercept(func(q kube.Request) *kube.Fault {
		if q.Call() == "PATCH virtualmachines" && first {
			first = false
			vm := r.getVM("web")
			vm.Spec.RunStrategy = new(kubevirtv1.RunStrategyManual)
			require.NoError(t, r.client.Update(t.Context(), vm))
		}
		return nil
	})
	accepted(t, r.do("PUT", "virtualmachines/web/start", ""))
	vm := r.getVM("web")
	require.Equal(t, kubevirtv1.RunStrategyManual, *vm.Spec.RunStrategy)
	require.Len(t, vm.Status.StateChangeRequests, 1, "it was decided again, for the strategy that it has by now")
}

func TestExpandSpec(t *testing.T) {
	r := newRig(t)
	r.vm("web", kubevirtv1.RunStrategyHalted, nil)
	r.vm("typed", kubevirtv1.RunStrategyHalted, func(vm *kubevirtv1.VirtualMachine) {
		vm.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Name: "u1"}
	})
	a := r.do("GET", "virtualmachines/web/expand-spec", "")
	require.Equal(t, 200, a.code)
	vm := &kubevirtv1.VirtualMachine{}
	require.NoError(t, json.Unmarshal([]byte(a.body), vm))
	require.Equal(t, "VirtualMachine", vm.Kind)
	require.Equal(t, "kubevirt.io/v1", vm.APIVersion)
	require.Equal(t, 501, r.do("GET", "virtualmachines/typed/expand-spec", "").code)

	const given = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"x"},"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"devices":{}}}}}}`
	a = r.do("PUT", "expand-vm-spec", given)
	require.Equal(t, 200, a.code)
	require.NoError(t, json.Unmarshal([]byte(a.body), vm))
	require.Equal(t, "default", vm.Namespace)
	for body, text := range map[string]string{
		"{": "Can not unmarshal Request body to struct, error: unexpected end of " +
			"JSON input",
		"": "Can not unmarshal Request body to struct, error: unexpected end of " +
			"JSON input",
		`{"apiVersion":"v1","kind":"Pod"}`:                             "Object is not a valid VirtualMachine",
		strings.Replace(given, `"name":"x"`, `"namespace":"other"`, 1): "VM namespace must be empty or default",
		strings.Replace(given, "domain", "domian", 1):                  "Object is not a valid VirtualMachine",
	} {
		a := r.do("PUT", "expand-vm-spec", body)
		require.Equal(t, 400, a.code)
		require.Equal(t, text, a.status.Message)
	}
	a = r.do("PUT", "expand-vm-spec", strings.Replace(given, "domain", "domian", 1))
	require.Contains(t, a.body, "spec.template.spec.domian", "it says where")
}

// TestEveryRouteRefusesMissingObject: no handler answers successfully about an object that does not exist.
func TestEveryRouteRefusesMissingObject(t *testing.T) {
	r := newRig(t)
	vm := `virtualmachine.kubevirt.io "missing" not found`
	vmi := `virtualmachineinstance.kubevirt.io "missing" not found`
	volume := `{"name":"hp","disk":{"disk":{"bus":"scsi"}},"volumeSource":{"persistentVolumeClaim":{"claimName":"hp"}}}`
	for path, body := range map[string]string{
		"start": "", "stop": `{"gracePeriod":0}`, "restart": "", "migrate": "{}", "addvolume": volume,
		"removevolume": `{"name":"nope"}`,
		"memorydump":   `{"claimName":"c"}`, "removememorydump": "", "evacuate/cancel": "{}",
	} {
		a := r.do("PUT", "virtualmachines/missing/"+path, body)
		require.Equal(t, 404, a.code, path)
		require.Equal(t, vm, a.status.Message, path)
		require.Equal(t, &metav1.StatusDetails{Name: "missing", Group: "kubevirt.io", Kind: "virtualmachine"},
			a.status.Details)
	}
	for path, body := range map[string]string{
		"pause": "", "unpause": "", "freeze": "", "unfreeze": "", "softreboot": "", "reset": "", "addvolume": volume,
		"removevolume":    `{"name":"nope"}`,
		"evacuate/cancel": "{}", "sev/setupsession": `{"session":"a","dhCert":"b"}`,
		"sev/injectlaunchsecret": `{"header":"a","secret":"b"}`,
		"backup":                 "", "redefine-checkpoint": "",
	} {
		a := r.do("PUT", "virtualmachineinstances/missing/"+path, body)
		require.Equal(t, 404, a.code, path)
		require.Equal(t, vmi, a.status.Message, path)
	}
	for path, want := range map[string]answer{
		"virtualmachines/missing/expand-spec":                        {code: 404},
		"virtualmachines/missing/objectgraph":                        {code: 404},
		"virtualmachineinstances/missing/objectgraph":                {code: 404},
		"virtualmachineinstances/missing/sev/fetchcertchain":         {code: 500, body: vmi},
		"virtualmachineinstances/missing/sev/querylaunchmeasurement": {code: 500, body: vmi},
	} {
		a := r.do("GET", path, "")
		require.Equal(t, want.code, a.code, path)
		if want.body != "" {
			require.Equal(t, want.body, a.body)
			require.Equal(t, "text/plain; charset=utf-8", a.kind)
		}
	}
	require.Empty(t, r.asked)
}

// TestRefusesUnsupportedByName: KubeVirt's own refusal where it has one, and otherwise 501 with a sentence.
func TestRefusesUnsupportedByName(t *testing.T) {
	r := newRig(t)
	r.vm("web", kubevirtv1.RunStrategyAlways, func(vm *kubevirtv1.VirtualMachine) {
		vm.Spec.Template.Spec.Volumes = []kubevirtv1.Volume{{Name: "root"}}
		running(vm)
	})
	r.vm("off", kubevirtv1.RunStrategyHalted, nil)
	r.vmi("web", kubevirtv1.Running, func(vmi *kubevirtv1.VirtualMachineInstance) {
		vmi.Status.NodeName = "n"
	})
	r.vmi("off", kubevirtv1.Succeeded, disown)
	volume := func(name string) string {
		return `{"name":"` + name +
			`","disk":{"disk":{"bus":"scsi"}},"volumeSource":{"persistentVolumeClaim":{"claimName":"hp"}}}`
	}
	for _, c := range []struct {
		path, body string
		code       int
		text       string
	}{
		{"virtualmachines/web/addvolume", "", 400, "AddVolumeOptions requires name to be set"},
		{"virtualmachines/web/addvolume", `{"name":"a"}`, 400, "AddVolumeOptions requires disk to not be nil"},
		{"virtualmachines/web/addvolume", `{"name":"a","disk":{}}`, 400,
			"AddVolumeOptions requires VolumeSource to not be nil"},
		{"virtualmachines/web/addvolume", volume("root"), 409,
			`Operation cannot be fulfilled on virtualmachine.kubevirt.io "web": Unable to add volume [root] because ` +
				`volume with that name already exists`},
		{"virtualmachines/web/addvolume", volume("hp"), 501,
			"Volumes cannot be plugged into or out of a running virtual machine yet. Stop it, change " +
				"spec.template.spec, and start it."},
		{"virtualmachines/web/removevolume", "", 400, "RemoveVolumeOptions requires name to be set"},
		{"virtualmachines/web/removevolume", `{"name":"nope"}`, 409,
			`Operation cannot be fulfilled on virtualmachine.kubevirt.io "web": Unable to remove volume [nope] ` +
				`because it does not exist`},
		{"virtualmachines/web/removevolume", `{"name":"root"}`, 409,
			`Operation cannot be fulfilled on virtualmachine.kubevirt.io "web": Unable to remove volume [root] ` +
				`because it is not hotpluggable`},
		{"virtualmachines/web/memorydump", "{}", 400, "Memory dump requires claim name to be set"},
		{"virtualmachines/off/memorydump", `{"claimName":"c"}`, 409,
			`Operation cannot be fulfilled on virtualmachine.kubevirt.io "off": VMI is not running`},
		{"virtualmachines/web/memorydump", `{"claimName":"c"}`, 501, "Memory dumps are not supported yet."},
		{"virtualmachines/web/removememorydump", "", 409,
			`Operation cannot be fulfilled on virtualmachine.kubevirt.io "web": can't remove memory dump association ` +
				`for vm web, no association found`},
		{"virtualmachineinstances/web/addvolume", volume("hp"), 400, "VMI default/web is owned by a VM"},
		{"virtualmachineinstances/off/addvolume", volume("hp"), 409,
			`Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "off": VMI is not running`},
		{"virtualmachineinstances/web/sev/setupsession", "{}", 400, "Session blob is required"},
		{"virtualmachineinstances/web/sev/setupsession", `{"session":"a"}`, 400, "DH cert is required"},
		{"virtualmachineinstances/web/backup", "{}", 409,
			`Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "web": ChangedBlockTracking is ` +
				`not enabled`},
		{"virtualmachineinstances/off/backup", "{}", 409,
			`Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "off": VM is not running`},
		{"virtualmachineinstances/off/redefine-checkpoint", "{}", 409,
			`Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "off": ChangedBlockTracking is ` +
				`not enabled`},
		{"virtualmachineinstances/web/evacuate/cancel", "", 200, ""},
		{"virtualmachines/web/evacuate/cancel", "{}", 200, ""},
	} {
		a := r.do("PUT", c.path, c.body)
		require.Equal(t, c.code, a.code, c.path+" "+a.body)
		require.Equal(t, c.text, a.status.Message, c.path)
	}
	require.Equal(t, http.StatusBadRequest, r.do("GET", "virtualmachines/web/objectgraph", "").code)
	a := r.do("GET", "virtualmachineinstances/web/sev/fetchcertchain", "")
	require.Equal(t, answer{code: 500, kind: "text/plain; charset=utf-8",
		body: `Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "web": Attestation not ` +
			`requested for VMI`}, a)
	r.vm("gone", kubevirtv1.RunStrategyAlways, nil)
	refused(t, r.do("PUT", "virtualmachines/gone/evacuate/cancel", "{}"), "gone", "VMI is not started")
}

func TestCancelsEvacuation(t *testing.T) {
	r := newRig(t)
	r.vmi("web", kubevirtv1.Running, func(vmi *kubevirtv1.VirtualMachineInstance) {
		vmi.Status.EvacuationNodeName = "n"
	})
	const path = "virtualmachineinstances/web/evacuate/cancel"
	require.Equal(t, 409, r.do("PUT", path, `{"evacuationNodeName":"m"}`).code, "it is to leave another node")
	require.Equal(t, 200, r.do("PUT", path, `{"evacuationNodeName":"n","dryRun":["All"]}`).code)
	require.Equal(t, "n", r.getVMI("web").Status.EvacuationNodeName)
	require.Equal(t, 200, r.do("PUT", path, `{"evacuationNodeName":"n"}`).code)
	require.Empty(t, r.getVMI("web").Status.EvacuationNodeName)
	r.vmi("other", kubevirtv1.Running, func(vmi *kubevirtv1.VirtualMachineInstance) {
		vmi.Status.EvacuationNodeName = "n"
	})
	require.Equal(t, 200, r.do("PUT", "virtualmachineinstances/other/evacuate/cancel", `{}`).code,
		"virtctl names no node")
	require.Empty(t, r.getVMI("other").Status.EvacuationNodeName)
}

// TestInstanceWithVMsNameOnly: a right to a VM's subresource does not cover an instance that only has its name.
func TestInstanceWithVMsNameOnly(t *testing.T) {
	r := newRig(t)
	r.vm("web", kubevirtv1.RunStrategyAlways, running)
	r.vmi("web", kubevirtv1.Running, func(vmi *kubevirtv1.VirtualMachineInstance) {
		disown(vmi)
		vmi.Status.EvacuationNodeName = "n"
	})
	a := r.do("PUT", "virtualmachines/web/evacuate/cancel", "{}")
	require.Equal(t, 500, a.code)
	require.Contains(t, a.status.Message, "unable to retrieve vmi [web] for vm")
	require.Equal(t, "n", r.getVMI("web").Status.EvacuationNodeName)
}
