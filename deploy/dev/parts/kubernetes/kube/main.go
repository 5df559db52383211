// Command kube is every Kubernetes program of the development cluster in one binary: which one runs is decided by the
// name it is called by (a symlink), or by its first argument. One binary links in a fifth of the time of six.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // the JSON log format
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go's metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // the build's version as a metric
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs are the programs in this binary, by name; each returns its exit code.
func programs() map[string]func() int {
	return map[string]func() int{
		"kube-apiserver":          serve(apiserver.NewAPIServerCommand),
		"kube-controller-manager": serve(kcm.NewControllerManagerCommand),
		"kube-proxy":              serve(proxy.NewProxyCommand),
		"kube-scheduler":          serve(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
		"kubelet": serve(func() *cobra.Command {
			return kubelet.NewKubeletCommand(context.Background())
		}),
		"kubectl": kubectl,
	}
}

func serve(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

func kubectl() int {
	// As kubectl's own main does it: the verbosity must be known before the command tree is made.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		cmdutil.CheckErr(err) // exits
	}
	return 0
}

func main() {
	all := programs()
	name := filepath.Base(os.Args[0])
	run, ok := all[name]
	if !ok && len(os.Args) > 1 {
		name = os.Args[1]
		if run, ok = all[name]; ok {
			os.Args = os.Args[1:]
		}
	}
	if !ok {
		names := make([]string, 0, len(all))
		for n := range all {
			names = append(names, n)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "usage: kube {%s} [arguments]\n", strings.Join(names, "|"))
		os.Exit(2)
	}
	os.Exit(run())
}
