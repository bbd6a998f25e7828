// A service in Go that lets the agent check its requests' tokens.
package main

import "net/http"
import "time"

var client = http.Client{Timeout: 5 * time.Second}

// Not a good token, one without the scopes, or a header that cannot be read or is too long.
var isRefusal = map[int]bool{401: true, 403: true, 400: true, 431: true}

// signedIn calls next only if the token is good, with the headers of the agent's answer. A limited token is good only
// where path names scopes, and the token has them.
func signedIn(path string, next func(http.ResponseWriter, *http.Request, http.Header)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		question, _ := http.NewRequestWithContext(r.Context(), "GET", "http://127.0.0.1:4181"+path, nil)
		question.Header["Authorization"] = r.Header["Authorization"]
		answer, err := client.Do(question)
		if err == nil {
			defer answer.Body.Close()
		}
		if err == nil && answer.StatusCode == http.StatusOK {
			next(w, r, answer.Header)
		} else if err == nil && isRefusal[answer.StatusCode] {
			w.Header()["Www-Authenticate"] = answer.Header["Www-Authenticate"]
			w.WriteHeader(answer.StatusCode)
		} else { // Nothing is known about the token. A 401 would sign the user out.
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
}

func main() {
	http.HandleFunc("/orders", signedIn("/verify", func(w http.ResponseWriter, r *http.Request, auth http.Header) {
		w.Write([]byte("user " + auth.Get("X-Auth-User") + ", roles " + auth.Get("X-Auth-Roles") + "\n"))
	}))
	http.HandleFunc("/reports/", signedIn("/scopes/reports:read/verify", func(w http.ResponseWriter, r *http.Request, auth http.Header) {
		w.Write([]byte(r.URL.Path + " of user " + auth.Get("X-Auth-User") + "\n"))
	}))
	panic(http.ListenAndServe(":8080", nil))
}
