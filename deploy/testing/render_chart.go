// Renders the chart with the engine and functions that Helm is made of: Go's
// text/template, sprig and sigs.k8s.io/yaml, which Debian has; Helm it has not.
//
//	render_chart CHART RELEASE <OVERRIDES.json
//
// prints the objects, with "---" between them.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type files struct{ chart string }

func (f files) Get(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(f.chart, name))
	return string(text), err
}

func merge(into, from map[string]interface{}) {
	for key, value := range from {
		inner, isMap := value.(map[string]interface{})
		old, wasMap := into[key].(map[string]interface{})
		if isMap && wasMap {
			merge(old, inner)
		} else {
			into[key] = value
		}
	}
}

func functions(all *template.Template) template.FuncMap {
	known := sprig.TxtFuncMap()
	// Helm has none of them: they'd make a chart depend on who renders it.
	delete(known, "env")
	delete(known, "expandenv")
	known["include"] = func(name string, data interface{}) (string, error) {
		var out bytes.Buffer
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	known["required"] = func(sentence string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, errors.New(sentence)
		}
		return value, nil
	}
	known["toYaml"] = func(value interface{}) (string, error) {
		out, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(out), "\n"), err
	}
	return known
}

func render(chart, release string) error {
	read := func(name string, into interface{}) error {
		text, err := os.ReadFile(filepath.Join(chart, name))
		if err != nil {
			return err
		}
		return yaml.Unmarshal(text, into)
	}
	about, values := map[string]interface{}{}, map[string]interface{}{}
	overrides := map[string]interface{}{}
	if err := read("Chart.yaml", &about); err != nil {
		return err
	}
	if err := read("values.yaml", &values); err != nil {
		return err
	}
	if err := json.NewDecoder(os.Stdin).Decode(&overrides); err != nil {
		return err
	}
	merge(values, overrides)
	upper := map[string]interface{}{}
	for key, value := range about {
		upper[strings.ToUpper(key[:1])+key[1:]] = value
	}
	data := map[string]interface{}{
		"Values": values, "Chart": upper, "Files": files{chart},
		"Release": map[string]interface{}{
			"Name": release, "Namespace": "default", "Service": "Helm"},
	}
	all := template.New("chart").Option("missingkey=zero")
	all.Funcs(functions(all))
	var names []string
	err := filepath.Walk(filepath.Join(chart, "templates"),
		func(path string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if _, err = all.New(path).Parse(string(text)); err != nil {
				return err
			}
			if strings.HasSuffix(path, ".yaml") {
				names = append(names, path)
			}
			return nil
		})
	if err != nil {
		return err
	}
	for _, name := range names {
		var out bytes.Buffer
		if err := all.ExecuteTemplate(&out, name, data); err != nil {
			return err
		}
		if strings.Contains(out.String(), "<no value>") {
			return fmt.Errorf("%s: a value is not there", name)
		}
		if strings.TrimSpace(out.String()) != "" {
			fmt.Printf("---\n%s\n", out.String())
		}
	}
	return all.ExecuteTemplate(os.Stderr,
		filepath.Join(chart, "templates", "NOTES.txt"), data)
}

func main() {
	if err := render(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
