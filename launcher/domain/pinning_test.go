package domain_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/domain"
)

// host has cores of two threads, four cores in each of two NUMA nodes, numbered as Linux does on many machines: the
// second threads come after all first ones.
func host(ids ...int) []domain.HostCPU {
	var out []domain.HostCPU
	for _, id := range ids {
		core := id % 8
		out = append(out, domain.HostCPU{ID: id, Core: core, Node: core / 4})
	}
	return out
}

func TestPinsVirtualCPUs(t *testing.T) {
	for name, c := range map[string]struct {
		cpu      string
		pool     string
		host     []domain.HostCPU
		pins     string
		emulator string
		io       string
		err      string
	}{
		"one each":               {cpu: `"cores":3`, host: host(1, 2, 9), pins: "1 9 2"},
		"threads share a core":   {cpu: `"cores":2,"threads":2`, host: host(1, 2, 9, 10), pins: "1 9 2 10"},
		"whole cores come first": {cpu: `"cores":2,"threads":2`, host: host(0, 2, 3, 10), pins: "2 10 0 3"},
		"whole cores of another node": {cpu: `"cores":2,"threads":2,"isolateEmulatorThread":true`, host: host(0, 8, 1, 4, 12),
			pins: "0 8 4 12", emulator: "1"},
		"nodes are filled":        {cpu: `"cores":3`, host: host(7, 1, 2), pins: "1 2 7"},
		"of sockets to come none": {cpu: `"sockets":2,"maxSockets":8`, host: host(0, 1), pins: "0 1"},
		"emulator":                {cpu: `"cores":1,"isolateEmulatorThread":true`, host: host(0, 1), pins: "0", emulator: "1"},
		"emulator with two":       {cpu: `"cores":2,"isolateEmulatorThread":true`, host: host(0, 1, 2, 3), pins: "0 1", emulator: "2,3"},
		"pool":                    {cpu: `"cores":1`, pool: "2", host: host(0, 1, 2), pins: "0", io: "1 2"},
		"pool and emulator": {cpu: `"cores":1,"isolateEmulatorThread":true`, pool: "1", host: host(0, 1, 2, 3), pins: "0",
			io: "1", emulator: "2,3"},
		"none for the pool":     {cpu: `"cores":2`, pool: "1", host: host(0, 1), err: "needs 3 dedicated CPUs"},
		"too few":               {cpu: `"cores":3`, host: host(0, 1), err: "needs 3 dedicated CPUs, the pod has 2"},
		"none for the emulator": {cpu: `"cores":2,"isolateEmulatorThread":true`, host: host(0, 1), err: "needs 3 dedicated CPUs"},
		"all of the node's":     {cpu: `"cores":2`, host: host(0, 1, 2), err: "to the policy static"},
	} {
		t.Run(name, func(t *testing.T) {
			pool := ""
			if c.pool != "" {
				pool = `"ioThreadsPolicy":"supplementalPool","ioThreads":{"supplementalPoolThreadCount":` + c.pool + `},`
			}
			in := input(read(t, `{"domain":{"memory":{"guest":"128Mi"},`+pool+`"cpu":{"dedicatedCpuPlacement":true,`+c.cpu+
				`},"devices":{}}}`))
			in.CPUs = c.host
			d, err := domain.Build(in)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			var pins []string
			for i, pin := range d.CPUTune.VCPUPin {
				require.EqualValues(t, i, pin.VCPU)
				pins = append(pins, pin.CPUSet)
			}
			require.Equal(t, c.pins, strings.Join(pins, " "))
			var io []string
			for i, pin := range d.CPUTune.IOThreadPin {
				require.EqualValues(t, i+1, pin.IOThread)
				io = append(io, pin.CPUSet)
			}
			require.Equal(t, c.io, strings.Join(io, " "))
			require.Equal(t, c.emulator != "", d.CPUTune.EmulatorPin != nil)
			if c.emulator != "" {
				require.Equal(t, c.emulator, d.CPUTune.EmulatorPin.CPUSet)
			}
		})
	}
}

// TestMemoryOfNUMANodes: whole pages, all of the memory, and as even as that allows.
func TestMemoryOfNUMANodes(t *testing.T) {
	build := func(memory string, cpus ...int) ([]uint, error) {
		in := input(read(t, `{"domain":{"memory":{"guest":"`+memory+`","hugepages":{"pageSize":"2Mi"}},"cpu":{"cores":`+
			strconv.Itoa(len(cpus))+`,"dedicatedCpuPlacement":true,"numa":{"guestMappingPassthrough":{}}},"devices":{}}}`))
		in.CPUs = host(cpus...)
		d, err := domain.Build(in)
		if err != nil {
			return nil, err
		}
		var out []uint
		for _, cell := range d.CPU.Numa.Cell {
			out = append(out, cell.Memory>>20)
		}
		return out, nil
	}
	for _, c := range []struct {
		memory string
		cpus   []int
		want   []uint
	}{
		{"64Mi", []int{0, 1}, []uint{64}}, {"64Mi", []int{0, 7}, []uint{32, 32}}, {"6Mi", []int{0, 7}, []uint{4, 2}},
	} {
		got, err := build(c.memory, c.cpus...)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	_, err := build("2Mi", 0, 7)
	require.ErrorContains(t, err, "too few for 2 NUMA nodes")
}
