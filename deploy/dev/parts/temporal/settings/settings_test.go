package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
)

const shipped = "../../../../../temporal-dev.yaml"

func flags(t *testing.T) Flags {
	return Flags{
		Config: shipped, Data: filepath.Join(t.TempDir(), "data"), TLS: "/tls",
		Address: "10.210.0.1:7233", UIAddress: "127.0.0.1:8233", MetricsAddress: "127.0.0.1:7235",
		LogLevel: "warn", HistoryPort: 7234, MatchingPort: 7236, WorkerPort: 7239,
	}
}

// changed is the shipped configuration with one text replaced.
func changed(t *testing.T, old, replacement string) Flags {
	content, err := os.ReadFile(shipped)
	require.NoError(t, err)
	require.Contains(t, string(content), old)
	f := flags(t)
	f.Config = filepath.Join(t.TempDir(), "changed.yaml")
	require.NoError(t, os.WriteFile(f.Config, []byte(strings.ReplaceAll(string(content), old, replacement)), 0o600))
	return f
}

func TestShippedConfiguration(t *testing.T) {
	f := flags(t)
	loaded, err := Load(f)
	require.NoError(t, err)

	server := loaded.Server
	require.Equal(t, "10.210.0.1", server.Services["frontend"].RPC.BindOnIP)
	require.Equal(t, 7233, server.Services["frontend"].RPC.GRPCPort)
	require.Equal(t, "10.210.0.1:7233", server.PublicClient.HostPort)
	for _, name := range []string{"history", "matching", "worker"} {
		require.Equal(t, "127.0.0.1", server.Services[name].RPC.BindOnIP, name)
	}
	require.True(t, server.Global.TLS.Frontend.Server.RequireClientAuth)
	require.True(t, server.Global.TLS.Internode.Server.RequireClientAuth)
	require.Equal(t, "/tls/client.crt", server.Global.TLS.SystemWorker.CertFile)
	require.Zero(t, server.Global.PProf.Port, "no profiles unless they are asked for")

	main, visibility := server.Persistence.DataStores["main"].SQL, server.Persistence.DataStores["visibility"].SQL
	require.Equal(t, filepath.Join(f.Data, "temporal.db"), main.DatabaseName)
	require.Equal(t, filepath.Join(f.Data, "visibility.db"), visibility.DatabaseName)
	for _, store := range []map[string]string{main.ConnectAttributes, visibility.ConnectAttributes} {
		require.Equal(t, "wal", store["journal_mode"])
		require.Equal(t, "1", store["synchronous"])
	}

	require.Equal(t, "10.210.0.1:7233", loaded.UI.TemporalGRPCAddress)
	require.Equal(t, 8233, loaded.UI.Port)
	require.Equal(t, "/tls/client.key", loaded.UI.TLS.KeyFile)

	written, err := os.ReadFile(server.DynamicConfigClient.Filepath)
	require.NoError(t, err)
	dynamic := dynamicconfig.LoadYamlFile(written)
	require.Empty(t, dynamic.Errors)
	require.Empty(t, dynamic.Warnings)
	require.Equal(t, 2000, dynamic.Map[dynamicconfig.TransferProcessorMaxPollRPS.Key()][0].Value)
	require.Equal(t, true, dynamic.Map[dynamicconfig.MatchingEnableFairness.Key()][0].Value)
	require.Equal(t, 10*time.Second, server.DynamicConfigClient.PollInterval)
}

func TestEveryAddressIsReachedByLoopback(t *testing.T) {
	f := flags(t)
	f.Address = "0.0.0.0:7300"
	loaded, err := Load(f)
	require.NoError(t, err)
	require.Equal(t, "0.0.0.0", loaded.Server.Services["frontend"].RPC.BindOnIP)
	require.Equal(t, "127.0.0.1:7300", loaded.Server.PublicClient.HostPort)
	require.Equal(t, "127.0.0.1:7300", loaded.UI.TemporalGRPCAddress)
}

func TestRefused(t *testing.T) {
	elsewhere := func(set func(*Flags)) func(*testing.T) Flags {
		return func(t *testing.T) Flags { f := flags(t); set(&f); return f }
	}
	instead := func(old, replacement string) func(*testing.T) Flags {
		return func(t *testing.T) Flags { return changed(t, old, replacement) }
	}
	for name, test := range map[string]struct {
		flags func(*testing.T) Flags
		says  string
	}{
		"no such file":         {elsewhere(func(f *Flags) { f.Config = "absent.yaml" }), "--config"},
		"address without port": {elsewhere(func(f *Flags) { f.Address = "10.210.0.1" }), "use IP:PORT"},
		"UI for everybody": {elsewhere(func(f *Flags) {
			f.UIAddress = "0.0.0.0:8233"
		}), "use a loopback address"},
		"metrics for everybody": {elsewhere(func(f *Flags) {
			f.MetricsAddress = "10.0.0.1:1"
		}), "use a loopback address"},
		"profiles for everybody": {elsewhere(func(f *Flags) {
			f.PprofAddress = "0.0.0.0:7237"
		}), "use a loopback address"},
		"profiles without a port": {elsewhere(func(f *Flags) { f.PprofAddress = "127.0.0.1:0" }), "say the port"},
		"misspelt setting":        {instead("numHistoryShards", "numberOfShards"), "numberOfShards not found"},
		"misspelt dynamic setting": {instead("matching.enableFairness", "matching.enableFairnes"),
			"matching.enablefairnes"},
		"wrong type": {
			instead("history.maxTotalUpdates:\n    - value: 2000", "history.maxTotalUpdates:\n    - value: many"),
			"many"},
		"no client certificates": {instead("requireClientAuth: true", "requireClientAuth: false"),
			"must have requireClientAuth: true"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(test.flags(t))
			require.ErrorContains(t, err, test.says)
		})
	}
}

func TestProfilesWhereTheyAreAskedFor(t *testing.T) {
	f := flags(t)
	f.PprofAddress = "127.0.0.1:7237"
	loaded, err := Load(f)
	require.NoError(t, err)
	require.Equal(t, config.PProf{Host: "127.0.0.1", Port: 7237}, loaded.Server.Global.PProf)
}
