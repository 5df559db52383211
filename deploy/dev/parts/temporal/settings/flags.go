package settings

import (
	"fmt"
	"net/netip"
	"strconv"
)

// Flags has the settings of the command line; all others are in the configuration file.
type Flags struct {
	Config         string // path of temporal-dev.yaml
	Data           string // directory of the SQLite databases and of what the server is started with
	Postgres       string // directory of PostgreSQL's socket; empty for SQLite
	TLS            string // directory of ca.crt, server.crt, server.key, client.crt, client.key
	Address        string // IP:port of the frontend; an unspecified IP means every address
	UIAddress      string // IP:port of the UI, loopback
	MetricsAddress string // IP:port of the metrics, loopback
	PprofAddress   string // IP:port of /debug/pprof, loopback; empty for none
	LogLevel       string
	HistoryPort    int
	MatchingPort   int
	WorkerPort     int
}

// environment returns the variables for the configuration file's env function.
func (f Flags) environment() (map[string]string, error) {
	address, err := netip.ParseAddrPort(f.Address)
	if err != nil {
		return nil, fmt.Errorf("--address %q: use IP:PORT, for example 10.210.0.1:7233", f.Address)
	}
	ui, err := loopback("--ui-address", f.UIAddress)
	if err != nil {
		return nil, err
	}
	metrics, err := loopback("--metrics-address", f.MetricsAddress)
	if err != nil {
		return nil, err
	}
	var profilesIP, profilesPort string
	if f.PprofAddress != "" {
		profiles, err := loopback("--pprof-address", f.PprofAddress)
		if err != nil {
			return nil, err
		}
		if profiles.Port() == 0 {
			return nil, fmt.Errorf("--pprof-address %q: say the port; without the flag there are no profiles", f.PprofAddress)
		}
		profilesIP, profilesPort = profiles.Addr().String(), strconv.Itoa(int(profiles.Port()))
	}
	return map[string]string{
		"TEMPORAL_DEV_DATA":            f.Data,
		"TEMPORAL_DEV_POSTGRES":        f.Postgres,
		"TEMPORAL_DEV_TLS":             f.TLS,
		"TEMPORAL_DEV_LOG_LEVEL":       f.LogLevel,
		"TEMPORAL_DEV_IP":              address.Addr().String(),
		"TEMPORAL_DEV_PORT":            strconv.Itoa(int(address.Port())),
		"TEMPORAL_DEV_LOCAL_ADDRESS":   localAddress(address).String(),
		"TEMPORAL_DEV_UI_IP":           ui.Addr().String(),
		"TEMPORAL_DEV_UI_PORT":         strconv.Itoa(int(ui.Port())),
		"TEMPORAL_DEV_METRICS_ADDRESS": metrics.String(),
		"TEMPORAL_DEV_PPROF_IP":        profilesIP,
		"TEMPORAL_DEV_PPROF_PORT":      profilesPort,
		"TEMPORAL_DEV_HISTORY_PORT":    strconv.Itoa(f.HistoryPort),
		"TEMPORAL_DEV_MATCHING_PORT":   strconv.Itoa(f.MatchingPort),
		"TEMPORAL_DEV_WORKER_PORT":     strconv.Itoa(f.WorkerPort),
	}, nil
}

// localAddress is where the process itself reaches its frontend: the address it listens on, or loopback when it
// listens on all of them.
func localAddress(address netip.AddrPort) netip.AddrPort {
	if !address.Addr().IsUnspecified() {
		return address
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), address.Port())
}

// loopback parses an address of something that asks for no certificate, and so must not be reachable from elsewhere.
func loopback(flag, value string) (netip.AddrPort, error) {
	address, err := netip.ParseAddrPort(value)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%s %q: use IP:PORT", flag, value)
	}
	if !address.Addr().IsLoopback() {
		return netip.AddrPort{}, fmt.Errorf(
			"%s %q: it asks for no certificate, so use a loopback address such as 127.0.0.1:%d", flag, value, address.Port())
	}
	return address, nil
}
