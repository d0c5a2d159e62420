// SPDX-License-Identifier: Apache-2.0
// Decodes the answers of the three contracts as their own Go clients do: with encoding/json into structs of exact types.
// One fraction where a client has an integer makes a whole answer unreadable to it.
// Usage: contracts BASE_URL MAS_SANDBOXD. Prints a line per check and ends with exit status 1 when one failed.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

// --- MAS

type usage struct {
	CPUMs int64 `json:"cpu_ms"`
	MemMB int64 `json:"mem_mb"`
}

type masError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type executeResponse struct {
	ToolCallID string         `json:"tool_call_id"`
	Status     string         `json:"status"`
	Result     map[string]any `json:"result"`
	Error      *masError      `json:"error"`
	ExitCode   int            `json:"exit_code"`
	Usage      *usage         `json:"usage"`
	Stderr     string         `json:"stderr"`
}

// The library's policy has no JSON tags: its members go out in CamelCase, all of them, unset ones as null or zero.
type policy struct {
	AllowedTools []string
	AllowedCaps  []string
	Workdir      string
	AllowedPaths []string
	EnvWhitelist []string
	Network      struct {
		Enabled      bool
		AllowedHosts []string
	}
	Timeout       int64
	MemoryLimit   uint64
	MaxConcurrent int
}

// One call over standard input and output.
type lineRequest struct {
	ID     string         `json:"id"`
	Tool   string         `json:"tool"`
	Args   map[string]any `json:"args"`
	Policy policy         `json:"policy"`
}

type lineResponse struct {
	ID       string         `json:"id"`
	Result   map[string]any `json:"result"`
	Error    string         `json:"error"`
	ExitCode int            `json:"exit_code"`
	Duration string         `json:"duration"`
}

type createResponse struct {
	SandboxID string `json:"sandbox_id"`
	Status    string `json:"status"`
}

// --- sbx

type sandbox struct {
	ID           string `json:"id"`
	Namespace    string `json:"namespace"`
	Age          string `json:"age"`
	State        string `json:"state"`
	Allocated    string `json:"allocated"`
	LastExecTime string `json:"last_exec_time"`
	PodName      string `json:"pod_name"`
	Phase        string `json:"phase"`
}

type execResponse struct {
	ExecID   string `json:"exec_id"`
	Status   string `json:"status"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode *int   `json:"exit_code"`
}

type execStatus struct {
	SandboxID      string `json:"sandbox_id"`
	ExecID         string `json:"exec_id"`
	Status         string `json:"status"`
	ExitCode       *int   `json:"exit_code"`
	StartedAt      string `json:"started_at"`
	FinishedAt     string `json:"finished_at"`
	TimeoutSeconds int    `json:"timeout_seconds"`
	Error          string `json:"error"`
}

// --- actions

type action struct {
	ActionID         string `json:"action_id"`
	Status           string `json:"status"`
	RequiresApproval bool   `json:"requires_approval"`
	SecurityLevel    string `json:"security_level"`
}

type auditLog struct {
	Timestamp  string         `json:"timestamp"`
	ActionID   string         `json:"action_id"`
	ActionType string         `json:"action_type"`
	SkillID    string         `json:"skill_id"`
	Status     string         `json:"status"`
	Outcome    string         `json:"outcome"`
	Details    map[string]any `json:"details"`
}

var failed bool

func check(good bool, format string, args ...any) {
	word := "ok"
	if !good {
		word, failed = "not ok", true
	}
	fmt.Println(word, "-", fmt.Sprintf(format, args...))
}

// call sends a body (or none) and decodes the answer into into.
func call(method, url string, body any, into any) bool {
	var reader io.Reader
	if body != nil {
		text, _ := json.Marshal(body)
		reader = bytes.NewReader(text)
	}
	request, _ := http.NewRequest(method, url, reader)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		check(false, "%s %s: %v", method, url, err)
		return false
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if err := json.Unmarshal(text, into); err != nil {
		check(false, "%s %s is readable: %v in %s", method, url, err, text)
		return false
	}
	return true
}

func mas(base string) {
	var made createResponse
	call("POST", base+"/v1/sandbox/create", map[string]any{"policy": policy{}, "resources": map[string]any{}}, &made)
	check(made.Status == "ok" && made.SandboxID != "", "a MAS sandbox is made")
	for _, sandboxID := range []string{"", made.SandboxID} {
		var got executeResponse
		request := map[string]any{"sandbox_id": sandboxID, "tool_call_id": "c1", "trace": map[string]any{},
			"policy": policy{AllowedTools: []string{"calculator"}},
			"tool":   map[string]any{"name": "calculator", "args": map[string]any{"expression": "15*8+7"}}}
		call("POST", base+"/v1/sandbox/execute", request, &got)
		check(got.Status == "ok" && got.Result["result"] == 127.0 && got.ToolCallID == "c1", "the calculator in '%s' says 127", sandboxID)
		var refused executeResponse
		request["policy"] = policy{AllowedTools: []string{"fetch"}}
		call("POST", base+"/v1/sandbox/execute", request, &refused)
		check(refused.Status == "error" && refused.Error != nil && refused.Error.Code == "policy_denied", "a refusal is readable too")
	}
	// At an error the library ends the run of an agent; what a tool says itself is for the model to read.
	var missing executeResponse
	call("POST", base+"/v1/sandbox/execute", map[string]any{"sandbox_id": made.SandboxID, "policy": policy{AllowedPaths: []string{"/workspace"}},
		"tool": map[string]any{"name": "file_system", "args": map[string]any{"action": "read", "path": "/workspace/none"}}}, &missing)
	check(missing.Status == "ok" && missing.Error == nil && missing.ExitCode == 0 && missing.Result["success"] == false,
		"a file that is not there is a result: %+v", missing)
	for _, when := range []string{"", " again", " once more"} {
		var gone createResponse
		call("POST", base+"/v1/sandbox/destroy", map[string]any{"sandbox_id": made.SandboxID}, &gone)
		check(gone.Status == "ok", "and it is destroyed%s", when)
	}
}

func sbx(base string) {
	var made, one sandbox
	call("POST", base+"/sandboxes", map[string]any{"env": map[string]string{"A": "b"}}, &made)
	check(made.ID != "" && made.Namespace == made.ID && made.PodName != "", "an sbx sandbox is made")
	var list []sandbox
	call("GET", base+"/sandboxes", nil, &list)
	check(len(list) > 0 && (list[0].Allocated == "true" || list[0].Allocated == "false"), "and listed, allocated in words")
	call("GET", base+"/sandboxes/"+made.ID, nil, &one)
	check(one.ID == made.ID && one.Phase != "", "and shown")
	var sync, async execResponse
	call("POST", base+"/sandboxes/"+made.ID+"/exec", map[string]any{"command": []string{"sh", "-c", "echo out; exit 3"}, "async": false}, &sync)
	check(sync.ExecID == "" && sync.Stdout == "out\n" && sync.ExitCode != nil && *sync.ExitCode == 3, "a synchronous command is not taken for an asynchronous one")
	call("POST", base+"/sandboxes/"+made.ID+"/exec", map[string]any{"command": []string{"true"}, "async": true, "timeout_seconds": 9}, &async)
	check(async.ExecID != "" && async.Status == "running", "an asynchronous one has an id")
	var status execStatus
	call("GET", base+"/sandboxes/"+made.ID+"/execs/"+async.ExecID, nil, &status)
	check(status.ExecID == async.ExecID && status.StartedAt != "" && status.TimeoutSeconds == 9, "and a status")
	var gone struct{ Status string }
	call("DELETE", base+"/sandboxes/"+made.ID, nil, &gone)
	check(gone.Status == "deleted", "and it is deleted")
}

func actions(base string) {
	var done, waits action
	call("POST", base+"/api/actions", map[string]any{"action_type": "skill_execution", "skill_id": "calculator", "parameters": map[string]any{"expression": "1+1"}}, &done)
	check(done.ActionID != "" && !done.RequiresApproval, "an action of medium level runs")
	call("POST", base+"/api/actions", map[string]any{"action_type": "file_operation", "parameters": map[string]any{"operation": "write", "path": "a.txt", "content": "x"}}, &waits)
	check(waits.RequiresApproval && waits.SecurityLevel == "high", "one of high level waits")
	var logs []auditLog
	call("GET", base+"/api/audit-logs?limit=50", nil, &logs)
	found := false
	for _, row := range logs {
		found = found || (row.ActionID == done.ActionID && row.ActionType == "skill_execution")
	}
	check(found, "and the log has its own type")
}

// lines makes one call as the library does without a server: a process for each call, its output and errors in one, of
// which the last line that is an answer counts.
func lines(sandboxd string) {
	args := map[string]any{"expression": "15*8+7", "action": "read", "path": "/workspace/none"}
	for _, tool := range []string{"calculator", "file_system", "nosuch"} {
		text, _ := json.Marshal(lineRequest{ID: "c1", Tool: tool, Args: args,
			Policy: policy{AllowedTools: []string{"calculator", "file_system"}, AllowedPaths: []string{"/workspace"}}})
		command := exec.Command(sandboxd)
		command.Stdin = strings.NewReader(string(text) + "\n")
		output, err := command.CombinedOutput()
		var got *lineResponse
		all := strings.Split(strings.TrimSpace(string(output)), "\n")
		for i := len(all) - 1; i >= 0 && got == nil; i-- {
			var one lineResponse
			if json.Unmarshal([]byte(all[i]), &one) == nil {
				got = &one
			}
		}
		check(err == nil && got != nil && got.ID == "c1" && got.Duration != "", "a process for one call answers it: %v %q", err, output)
		if got != nil && tool == "calculator" {
			check(got.Error == "" && got.Result["result"] == 127.0, "the calculator over a line says 127")
		} else if got != nil && tool == "file_system" {
			check(got.Error == "" && got.ExitCode == 0 && got.Result["success"] == false, "a file that is not there is a result over a line, too")
		} else if got != nil {
			check(got.Error != "" && got.ExitCode != 0, "a refusal over a line is an error in words: %s", got.Error)
		}
	}
}

func main() {
	mas(os.Args[1])
	lines(os.Args[2])
	sbx(os.Args[1])
	actions(os.Args[1])
	if failed {
		os.Exit(1)
	}
}
