package settings

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"gopkg.in/yaml.v3"
)

const (
	renderedFile = "config.yaml"        // what the server was started with, for people to read
	dynamicFile  = "dynamicconfig.yaml" // read by the server, and again when it changes
)

// Settings is everything the process is started with.
type Settings struct {
	Server *config.Config
	UI     *uiconfig.Config
}

// file is temporal-dev.yaml: the server's own format and two more sections.
type file struct {
	config.Config `yaml:",inline"`

	DynamicConfig map[string]any  `yaml:"dynamicConfig"`
	UI            uiconfig.Config `yaml:"ui"`
}

// Load renders the configuration file with the flags, checks it, writes the rendered file and the dynamic configuration
// into the data directory, and loads them as the server does. Directories in the flags are made absolute.
func Load(flags Flags) (Settings, error) {
	for _, dir := range []*string{&flags.Data, &flags.TLS} {
		absolute, err := filepath.Abs(*dir)
		if err != nil {
			return Settings{}, fmt.Errorf("finding directory %q: %w", *dir, err)
		}
		*dir = absolute
	}
	rendered, err := render(flags)
	if err != nil {
		return Settings{}, err
	}
	var parsed file
	decoder := yaml.NewDecoder(bytes.NewReader(rendered))
	// The server ignores what it does not know; here a misspelt setting is an error.
	decoder.KnownFields(true)
	if err := decoder.Decode(&parsed); err != nil {
		return Settings{}, fmt.Errorf("reading %s: %w", flags.Config, err)
	}
	dynamic, err := dynamicSettings(parsed.DynamicConfig)
	if err != nil {
		return Settings{}, fmt.Errorf("section dynamicConfig of %s: %w", flags.Config, err)
	}
	if err := requireMutualTLS(&parsed.Global.TLS); err != nil {
		return Settings{}, fmt.Errorf("section global.tls of %s: %w", flags.Config, err)
	}
	if err := parsed.UI.Validate(); err != nil {
		return Settings{}, fmt.Errorf("section ui of %s: %w", flags.Config, err)
	}
	if err := os.MkdirAll(flags.Data, 0o700); err != nil {
		return Settings{}, fmt.Errorf("making the data directory: %w", err)
	}
	path := filepath.Join(flags.Data, renderedFile)
	if err := os.WriteFile(path, rendered, 0o600); err != nil {
		return Settings{}, fmt.Errorf("writing the rendered configuration: %w", err)
	}
	if err := os.WriteFile(filepath.Join(flags.Data, dynamicFile), dynamic, 0o600); err != nil {
		return Settings{}, fmt.Errorf("writing the dynamic configuration: %w", err)
	}
	loaded, err := config.Load(config.WithConfigFile(path))
	if err != nil {
		return Settings{}, fmt.Errorf("loading %s as the server does: %w", flags.Config, err)
	}
	return Settings{Server: loaded, UI: &parsed.UI}, nil
}

// render fills in the placeholders: the server's own template language, where env sees the flags before the process's
// environment.
func render(flags Flags) ([]byte, error) {
	source, err := os.ReadFile(flags.Config)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration (--config): %w", err)
	}
	environment, err := flags.environment()
	if err != nil {
		return nil, err
	}
	functions := sprig.TxtFuncMap()
	functions["env"] = func(name string) string {
		if value, ok := environment[name]; ok {
			return value
		}
		return os.Getenv(name)
	}
	parsed, err := template.New(filepath.Base(flags.Config)).Funcs(functions).Parse(string(source))
	if err != nil {
		return nil, fmt.Errorf("reading %s as a template: %w", flags.Config, err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, nil); err != nil {
		return nil, fmt.Errorf("filling in %s: %w", flags.Config, err)
	}
	return out.Bytes(), nil
}

// dynamicSettings checks the dynamic configuration as the server does and returns it as the server's own file. What the
// server only warns about, an unknown name or a value of the wrong type, is an error here.
func dynamicSettings(section map[string]any) ([]byte, error) {
	out, err := yaml.Marshal(section)
	if err != nil {
		return nil, fmt.Errorf("writing it as a file of its own: %w", err)
	}
	result := dynamicconfig.LoadYamlFile(out)
	if err := errors.Join(append(result.Errors, result.Warnings...)...); err != nil {
		return nil, err
	}
	return out, nil
}

// requireMutualTLS refuses a configuration that permits a connection without a certificate.
func requireMutualTLS(tls *config.RootTLS) error {
	for name, group := range map[string]config.GroupTLS{"frontend": tls.Frontend, "internode": tls.Internode} {
		if !group.Server.RequireClientAuth || len(group.Server.ClientCAFiles)+len(group.Server.ClientCAData) == 0 {
			return fmt.Errorf("%s must have requireClientAuth: true and clientCaFiles: no connection without a "+
				"client certificate", name)
		}
		for host, override := range group.PerHostOverrides {
			if !override.RequireClientAuth {
				return fmt.Errorf("%s, host override %s: requireClientAuth must be true", name, host)
			}
		}
	}
	return nil
}
