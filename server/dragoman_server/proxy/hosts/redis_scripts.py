"""The Lua scripts of what hosts share in Redis, each of which runs as one atomic step.

All keys have the hash tag of KEYS[1], so that they are in one slot of a cluster:

    …:receipt:ID    hash    the owner `o`, the summary `s` and the view `v` of a receipt
    …:receipts      zset    `SIZE:ID` of each receipt by its time, in milliseconds
    …:bytes         string  the sum of these sizes
    …:of:OWNER      zset    the ids of the last receipts of an owner by their times, in microseconds
    …:rows          stream  the rows of requests that have ended, in the field `r`
    …:seen          zset    the processes by the time of their last write
    …:states        hash    the states of the processes
    …:open:PROCESS  string  the open requests of a process
    …:asked:PROCESS set     the ids of open requests whose receipts it is to write
    …:watch         string  exists while open requests are to be written
"""

from __future__ import annotations

_COMMON = """
local K = KEYS[1]
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number) return string.format('%.0f', number) end
local function forget(process)
  call('ZREM', K .. ':seen', process)
  call('HDEL', K .. ':states', process)
  call('DEL', K .. ':open:' .. process, K .. ':asked:' .. process)
end
"""
WRITE = (
    _COMMON
    + """
local process, state, open, kept = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local most, most_bytes, listed, most_rows = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local lost_kept, processes, watch, count = tonumber(ARGV[9]), tonumber(ARGV[10]), ARGV[11], tonumber(ARGV[12])
local parts, begin, at = {}, 1, 1
for length in string.gmatch(ARGV[13], '%d+') do
  parts[#parts + 1] = string.sub(ARGV[14], begin, begin + length - 1)
  begin = begin + length
end
local all, total = K .. ':receipts', K .. ':bytes'
for i = 1, count do
  local id, owner, summary, view = parts[at], parts[at + 1], parts[at + 2], parts[at + 3]
  at = at + 4
  local name, of = K .. ':receipt:' .. id, K .. ':of:' .. owner
  if call('EXISTS', name) == 1 then
    local old = call('HSTRLEN', name, 's') + call('HSTRLEN', name, 'v')
    if call('ZREM', all, old .. ':' .. id) == 1 then call('DECRBY', total, old) end
  end
  call('HSET', name, 'o', owner, 's', summary, 'v', view)
  call('PEXPIRE', name, text(kept))
  local size = #summary + #view
  call('ZADD', all, text(now), size .. ':' .. id)
  call('INCRBY', total, size)
  -- In microseconds, so that those of one call keep their order.
  call('ZADD', of, 'NX', text(time[1] * 1000000 + time[2] + i), id)
  call('ZREMRANGEBYRANK', of, 0, -listed - 1)
  call('PEXPIRE', of, text(kept))
end
if count > 0 then
  local dropped = 0
  while dropped < 1000 do
    local first = call('ZRANGE', all, 0, 0, 'WITHSCORES')
    if not first[1] then break end
    local over = call('ZCARD', all) > most or tonumber(call('GET', total) or '0') > most_bytes
    if not over and tonumber(first[2]) > now - kept then break end
    local size, id = string.match(first[1], '^(%d+):(.*)$')
    call('ZREM', all, first[1])
    call('DECRBY', total, size)
    call('DEL', K .. ':receipt:' .. id)
    dropped = dropped + 1
  end
  call('PEXPIRE', all, text(2 * kept))
  call('PEXPIRE', total, text(2 * kept))
end
for i = at, #parts do call('XADD', K .. ':rows', 'MAXLEN', '~', most_rows, '*', 'r', parts[i]) end
if at <= #parts then call('PEXPIRE', K .. ':rows', text(kept)) end
call('ZADD', K .. ':seen', text(now), process)
call('HSET', K .. ':states', process, state)
call('PEXPIRE', K .. ':seen', text(lost_kept))
call('PEXPIRE', K .. ':states', text(lost_kept))
if open ~= '' then call('SET', K .. ':open:' .. process, open, 'PX', watch) end
for _, old in ipairs(call('ZRANGEBYSCORE', K .. ':seen', '-inf', text(now - lost_kept), 'LIMIT', 0, 100)) do
  forget(old)
end
local more = call('ZCARD', K .. ':seen') - processes
if more > 0 then for _, old in ipairs(call('ZRANGE', K .. ':seen', 0, more - 1)) do forget(old) end end
local asked = call('SMEMBERS', K .. ':asked:' .. process)
if asked[1] then call('DEL', K .. ':asked:' .. process) end
return {call('EXISTS', K .. ':watch'), asked}
"""
)
"""Arguments: process, state, open requests or nothing, the milliseconds for which receipts are kept, most receipts,
bytes, receipts of an owner and rows, the milliseconds for which lost processes are kept, most processes, the
milliseconds for which open requests are kept, the number of receipts, the lengths of the parts, and all parts in one
argument, as the client takes longer to write many: id, owner, summary and view of each receipt, and the rows.
"""
READ = (
    _COMMON
    + """
local position, most, watch, lease, watched = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), {}
if watch ~= '' then call('SET', K .. ':watch', '1', 'PX', watch) end
local rows, entries = {}, {}
if most > 0 and position ~= '' then
  entries = call('XRANGE', K .. ':rows', '(' .. position, '+', 'COUNT', most)
elseif most > 0 then
  local newest = call('XREVRANGE', K .. ':rows', '+', '-', 'COUNT', most)
  for i = #newest, 1, -1 do entries[#entries + 1] = newest[i] end
end
for _, entry in ipairs(entries) do
  position = entry[1]
  rows[#rows + 1] = entry[2][2]
end
local processes = {}
local seen = call('ZRANGE', K .. ':seen', 0, -1, 'WITHSCORES')
for i = 1, #seen, 2 do
  local state, age, open = call('HGET', K .. ':states', seen[i]), now - tonumber(seen[i + 1]), false
  if watch ~= '' and age <= lease then open = call('GET', K .. ':open:' .. seen[i]) end
  if state then
    processes[#processes + 1] = seen[i]
    processes[#processes + 1] = text(age)
    processes[#processes + 1] = state
    processes[#processes + 1] = open or ''
  end
end
return {position, rows, processes}
"""
)
"""Arguments: position or nothing, most rows, milliseconds to watch or nothing, the lease in milliseconds."""
LEAVE = _COMMON + "forget(ARGV[1])"
"""Argument: process."""
RECEIPT = _COMMON + "return call('HMGET', K .. ':receipt:' .. ARGV[1], 'o', 'v')"
"""Argument: id."""
RECEIPTS = (
    _COMMON
    + """
local found = {}
for _, id in ipairs(call('ZREVRANGE', K .. ':of:' .. ARGV[1], 0, tonumber(ARGV[2]) - 1)) do
  local summary = call('HGET', K .. ':receipt:' .. id, 's')
  if summary then found[#found + 1] = summary end
end
return found
"""
)
"""Arguments: owner, most."""
ASK = (
    _COMMON
    + """
local asked = K .. ':asked:' .. ARGV[1]
if call('SCARD', asked) < 100 then call('SADD', asked, ARGV[2]) end
call('PEXPIRE', asked, ARGV[3])
"""
)
"""Arguments: process, id, the milliseconds after which it is void."""
