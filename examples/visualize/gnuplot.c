#include "visualize/gnuplot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "visualize/script.h"

int gnuplot_find(char *path, size_t size) {
    const char *folders = getenv("PATH");
    while (folders && *folders) {
        const size_t length = strcspn(folders, ":");
        const int used = snprintf(path, size, "%.*s/gnuplot", (int)length, folders);
        struct stat status;
        if (length && used > 0 && (size_t)used < size && access(path, X_OK) == 0 && stat(path, &status) == 0 &&
            S_ISREG(status.st_mode))
            return 0;
        folders += length + (folders[length] == ':');
    }
    return -1;
}

/* The child: what gnuplot prints goes to `output`. Nothing of the user's own gnuplot settings is read (-d). */
static void become_gnuplot(const gnuplot_job *job, const char *script, int output) {
    char *const arguments[] = {"gnuplot", "-d", (char *)script, NULL};
    if (chdir(job->folder) == 0 && dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0) {
        close(output);
        execv(job->program, arguments);
    }
    const char *reason = strerror(errno);
    if (write(STDERR_FILENO, reason, strlen(reason)) < 0) _exit(126);
    _exit(127);
}

/* Reads the children's lines until all have ended or are to stop; keeps the last one that is no progress. Returns 1 if they are
 * to stop. */
static int follow(const gnuplot_job *job, FILE *output, char *last, size_t size) {
    char line[256];
    int done = 0;
    for (;;) {
        if (job->stop && *job->stop) return 1;
        errno = 0;
        if (!fgets(line, sizeof line, output)) {
            if (errno != EINTR) return job->stop && *job->stop;
            clearerr(output);
            continue;
        }
        line[strcspn(line, "\r\n")] = '\0';
        if (strcmp(line, SCRIPT_DONE) == 0) {
            if (job->progress) job->progress(job->user, ++done, job->figures);
        } else if (line[strspn(line, " \t^")]) {
            snprintf(last, size, "%s", line + strspn(line, " \t"));
        }
    }
}

/* Starts the children, their output on `output`. Returns how many run; fewer than there are scripts: with a message. */
static int start(const gnuplot_job *job, const int output[2], pid_t *child, text_error *error) {
    for (int i = 0; i < job->scripts; i++) {
        child[i] = fork();
        if (child[i] < 0) {
            text_fail(error, "gnuplot cannot be started: %s", strerror(errno));
            return i;
        }
        if (child[i] == 0) {
            close(output[0]);
            become_gnuplot(job, job->script[i], output[1]);
        }
    }
    return job->scripts;
}

int gnuplot_run(const gnuplot_job *job, text_error *error) {
    int ends[2];
    if (pipe(ends)) return text_fail(error, "gnuplot cannot be started: %s", strerror(errno));
    FILE *output = fdopen(ends[0], "r");
    if (!output) {
        text_fail(error, "gnuplot's output cannot be read: %s", strerror(errno));
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    pid_t child[GNUPLOT_PROCESSES];
    char last[256] = "";
    const int running = start(job, ends, child, error);
    close(ends[1]);
    const int stopped = running == job->scripts && follow(job, output, last, sizeof last);
    int status = 0;
    for (int i = 0; i < running; i++) {
        int ended = 0;
        if (stopped || running < job->scripts) kill(child[i], SIGTERM);
        while (waitpid(child[i], &ended, 0) < 0 && errno == EINTR) {
        }
        if (ended) status = ended;
    }
    fclose(output);
    if (running < job->scripts) return -1;
    if (stopped) return 1;
    if (WIFSIGNALED(status)) return text_fail(error, "gnuplot was ended by signal %d", WTERMSIG(status));
    if (status) return text_fail(error, "gnuplot (%s) failed: %s", job->program, *last ? last : "it gave no reason");
    return 0;
}
