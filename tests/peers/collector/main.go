// A small OpenTelemetry Collector for the tests of otel-ofu: OTLP comes in, JSON lines go to a file.
//
// It is run like any Collector: `otelcol --config file:collector.yaml`. What it can do is listed in
// components.go; nothing else is linked in, so that it builds in minutes on two cores.
package main

import (
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/otelcol"
)

// version is the release of the Collector modules in go.mod; ../build.py links it in.
var version = "unknown"

func main() {
	// Cobra prints the error itself; the exit status is all that is left to set.
	if otelcol.NewCommand(settings()).Execute() != nil {
		os.Exit(1)
	}
}

func settings() otelcol.CollectorSettings {
	return otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{
			Command:     "otelcol",
			Description: "OpenTelemetry Collector for the tests of otel-ofu",
			Version:     version,
		},
		Factories: components,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{
				ProviderFactories: []confmap.ProviderFactory{
					envprovider.NewFactory(),
					fileprovider.NewFactory(),
					yamlprovider.NewFactory(),
				},
			},
		},
	}
}
