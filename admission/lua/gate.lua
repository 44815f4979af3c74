#!lua
-- Stands before every other script of this folder.

-- The server that runs the script, and the line of its data: a restart, a failover
-- or a restored copy shows another identity. A gate that was filled on another one
-- may be an old copy of itself, so it is not believed. (About 5 microseconds a run.)
local function server()
  local info = redis.call('INFO', 'server', 'replication')
  return info:match('run_id:(%w+)') .. '/' .. info:match('master_replid:(%w+)')
end

-- The wanted fields of a gate that is present, open, of the caller's epoch and of
-- this server; else nil and the reply that says why nothing was done.
local function open_gate(key, epoch, ...)
  local gate = redis.call('HMGET', key, 'epoch', 'state', 'server', ...)
  if gate[1] ~= epoch or gate[2] ~= 'open' then
    return nil, {'not-ready', gate[1] or '', gate[2] or ''}
  end
  if gate[3] ~= server() then return nil, {'not-ready', gate[1], 'untrusted'} end
  return gate
end

-- Why nobody is admitted at this moment of the server's clock, or nil; and the moment
-- in ms.
local function refused_now(sale, starts, ends)
  local time = redis.call('TIME')
  local now = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
  if sale == 'closed' then return 'ended', now end
  if now < tonumber(starts) then return 'not-started', now end
  if tonumber(ends) > 0 and now >= tonumber(ends) then return 'ended', now end
  if sale == 'paused' then return 'paused', now end
  return nil, now
end

