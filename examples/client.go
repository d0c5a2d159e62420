// SPDX-License-Identifier: Apache-2.0
// The native API with Go's standard library: a command in a sandbox of its own, then a sandbox that lasts with a file, a
// command whose output is followed while it runs, and its end.
//
//	MAS_SANDBOX_URL=http://127.0.0.1:8080 MAS_SANDBOX_TOKEN=... go run examples/client.go
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
)

type object = map[string]any

// call returns the open answer. A body that is no []byte becomes JSON.
func call(method, path string, body any) (*http.Response, error) {
	data, raw := body.([]byte)
	if !raw && body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	url := os.Getenv("MAS_SANDBOX_URL")
	if url == "" {
		url = "http://127.0.0.1:8080"
	}
	request, err := http.NewRequest(method, url+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if token := os.Getenv("MAS_SANDBOX_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil || answer.StatusCode < 400 {
		return answer, err
	}
	defer answer.Body.Close()
	var failure struct{ Error struct{ Message string } }
	json.NewDecoder(answer.Body).Decode(&failure)
	return nil, fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, failure.Error.Message)
}

func callJSON(method, path string, body, result any) error {
	answer, err := call(method, path, body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return json.NewDecoder(answer.Body).Decode(result)
}

// follow prints a command's output until it ends. The log is the command's journal: it can be read from the start, again,
// or by others.
func follow(path string) error {
	answer, err := call("GET", path+"/logs?follow=1", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for events := json.NewDecoder(answer.Body); events.More(); {
		var event struct {
			Type, Data string
			ExitCode   int `json:"exit_code"`
		}
		if err := events.Decode(&event); err != nil {
			return err
		}
		switch event.Type {
		case "output":
			fmt.Print(event.Data)
		case "exit":
			fmt.Println("exit code:", event.ExitCode)
		}
	}
	return nil
}

func demo() error {
	var run struct{ Stdout string }
	if err := callJSON("POST", "/v1/run", object{"command": []string{"echo", "hello"}}, &run); err != nil {
		return err
	}
	fmt.Println("one-shot:", strings.TrimSpace(run.Stdout))

	var made struct{ ID string }
	if err := callJSON("POST", "/v1/sandboxes", object{"limits": object{"memory_mb": 256}}, &made); err != nil {
		return err
	}
	sandbox := "/v1/sandboxes/" + made.ID
	defer callJSON("DELETE", sandbox, nil, &object{})

	script := []byte("for i in 1 2 3; do echo line $i; done; exit 3\n")
	if err := callJSON("PUT", sandbox+"/files/content?path=/workspace/job.sh", script, &object{}); err != nil {
		return err
	}
	var started struct {
		ExecID string `json:"exec_id"`
	}
	command := object{"command": []string{"sh", "job.sh"}, "async": true} // answers at once
	if err := callJSON("POST", sandbox+"/exec", command, &started); err != nil {
		return err
	}
	return follow(sandbox + "/execs/" + started.ExecID)
}

func main() {
	if err := demo(); err != nil {
		log.Fatal(err)
	}
}
